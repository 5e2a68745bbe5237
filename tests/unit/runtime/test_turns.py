"""Turns: who waits goes on in a later turn, and a group with many who wait takes no more than one with a single one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leveret.runtime import network
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.turns import SLICE_WORK, TURN_WORK, WAITED_WORK, Turns
from tests.unit.runtime.endpoints import Recorder, run, until
from tests.unit.runtime.test_network import connected, tcp_pair


class Busy:
    """Somebody with so many slices of work, who notes whose slice it was."""

    def __init__(self, turns: Turns, group: str, slices: int, done: list[str]) -> None:
        self.turns = turns
        self.group = group
        self.left = slices
        self.done = done

    def go_on(self) -> None:
        self.turns.start_slice()
        self.left -= 1
        self.done.append(self.group)
        if self.turns.is_slice_over(SLICE_WORK) and self.left:
            self.turns.wait(self.group, self.go_on)


def turn_by_turn(check: Callable[[Turns, list[list[str]], list[str]], None], *busy: tuple[str, int, int]) -> None:
    """`busy` are (group, how many of them, slices each); runs until nobody waits, a list of slices for each turn."""

    async def test() -> None:
        flushes: list[int] = []
        done: list[str] = []
        turns = Turns(asyncio.get_running_loop(), lambda: flushes.append(len(done)))
        for group, count, slices in busy:
            for _ in range(count):
                turns.wait(group, Busy(turns, group, slices, done).go_on)
        rounds: list[list[str]] = []
        while turns.waiting_count:
            before = len(done)
            await asyncio.sleep(0)
            if len(done) > before:
                rounds.append(done[before:])
        assert flushes[0] == 0, "answers go out before more is done"
        check(turns, rounds, done)

    asyncio.run(test())


def test_a_turn_ends_when_its_share_is_used_up() -> None:
    def check(turns: Turns, rounds: list[list[str]], done: list[str]) -> None:
        assert len(done) == 20
        assert max(map(len, rounds)) == -(-WAITED_WORK // SLICE_WORK)

    turn_by_turn(check, ("a", 10, 2))


def test_groups_take_turns_however_many_wait_in_each() -> None:
    def check(turns: Turns, rounds: list[list[str]], done: list[str]) -> None:
        assert done[:6] == ["a", "b", "a", "b", "a", "b"]
        assert done.count("a") == 100

    turn_by_turn(check, ("a", 100, 1), ("b", 1, 3))


def test_those_of_one_group_take_turns() -> None:
    async def test() -> None:
        turns = Turns(asyncio.get_running_loop(), lambda: None)
        done: list[str] = []
        first, second = Busy(turns, "g", 3, done), Busy(turns, "g", 3, done)
        turns.wait("g", first.go_on)
        turns.wait("g", second.go_on)
        while turns.waiting_count:
            await asyncio.sleep(0)
            assert abs(first.left - second.left) <= 1

    asyncio.run(test())


def test_who_has_cancelled_is_passed_over_and_a_failure_stops_nobody() -> None:
    async def test() -> None:
        turns = Turns(asyncio.get_running_loop(), lambda: None)
        done: list[str] = []

        def fail() -> None:
            raise ValueError("a mistake")

        turns.wait("g", lambda: done.append("cancelled")).cancel()
        turns.wait("g", fail)
        turns.wait("g", lambda: done.append("next"))
        await until(lambda: turns.waiting_count == 0)
        assert done == ["next"]

    asyncio.run(test())


def test_a_socket_is_not_read_in_a_turn_that_is_used_up_but_in_the_next() -> None:
    async def test() -> None:
        async with connected() as pair:
            reads: list[int] = []
            turns = pair.board.turns

            def busy_turn() -> None:
                turns.is_over()
                turns.meter.spent += TURN_WORK
                pair.transport._readable()
                reads.append(len(pair.endpoint.octets))

            pair.peer.send(b"hello")
            busy_turn()
            assert reads == [0]
            assert turns.waiting_count == 1
            await until(lambda: pair.endpoint.octets == b"hello")
            assert turns.waiting_count == 0
            pair.peer.send(b" again")
            await until(lambda: pair.endpoint.octets == b"hello again")

    run(test)


def test_a_pump_that_is_closed_while_it_waits_is_not_read() -> None:
    async def test() -> None:
        async with connected() as pair:
            pair.board.turns.is_over()
            pair.board.turns.meter.spent += TURN_WORK
            pair.peer.send(b"hello")
            pair.transport._readable()
            pair.transport.abort("over")
            await asyncio.sleep(0.01)
            assert pair.endpoint.octets == b""
            assert pair.endpoint.losses == ["over"]

    run(test)


def test_many_outboxes_are_flushed_over_several_turns() -> None:
    async def test() -> None:
        board = SocketHub(asyncio.get_running_loop())
        transports, peers = [], []
        saved, network.FLUSHED_A_TURN = network.FLUSHED_A_TURN, 2  # type: ignore[misc]
        try:
            for _ in range(5):
                ours, theirs = tcp_pair()
                ours.setblocking(False)
                theirs.setblocking(False)
                transport, endpoint = SocketTransport(board, ours, ("peer", 1)), Recorder(board)
                transport.start(endpoint)
                endpoint.write_buffer.write(b"x")
                transports.append(transport)
                peers.append(theirs)
            board._flush()
            assert len(board.dirty) == 3
            await until(lambda: not board.dirty)
        finally:
            network.FLUSHED_A_TURN = saved  # type: ignore[misc]
            for transport in transports:
                transport.abort("over")
            for peer in peers:
                assert peer.recv(10) == b"x"
                peer.close()
            board.close()

    run(test)
