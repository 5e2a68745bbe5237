"""Links between nodes in one process, over TLS on loopback and over unix sockets: order, bounds, questions, the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from leveret.cluster.consensus.driver import Links
from leveret.cluster.links.hello import Purpose
from leveret.cluster.members.credentials import Files
from leveret.errors import AskFailed, ClusterError
from tests.cluster.nodes import SETTINGS, Node, linked, meet, until
from tests.unit.runtime.endpoints import run


@pytest.mark.parametrize("over", ["tls", "unix"])
def test_everything_arrives_in_its_order(cluster: list[Files], over: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(cluster[:2], unix=tmp_path if over == "unix" else None) as (one, two):
            driver_sees: Links = one.links
            for number in range(200):
                driver_sees.send(2, b"%d" % number)
            payloads = [bytes(3 << 20), b"", b"end"]
            driver_sees.send_carrier(2, b"append", payloads)
            assert one.links.send_traffic(2, 77, b"pipe")
            await until(lambda: two.heard.carriers and two.heard.pipes)
            assert two.heard.frames == [(1, b"%d" % number) for number in range(200)]
            assert two.heard.carriers == [(1, b"append", payloads)]
            assert two.heard.pipes == [(1, 77, b"pipe")]
            link = one.links.links[2]
            await until(lambda: link.round_trip_s is not None)
            assert one.heard.ups == [2] and one.heard.downs == [] and set(one.heard.losses) == {2}
            assert link.octets.sent > 3 << 20 and link.octets.frames_sent > 200
            assert two.links.links[1].octets.received > 3 << 20
            assert link.statistics.connects == 2 and one.links.refusals.total == 0

    run(test)


def test_questions_are_answered_refused_or_given_up(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2]) as (one, two):
            asked = [asyncio.ensure_future(one.links.ask(2, b"%d" % number, 20)) for number in range(3)]
            await until(lambda: len(two.heard.questions) == 3)
            assert [question.octets for question in two.heard.questions] == [b"0", b"1", b"2"]
            two.heard.questions[2].answer(b"two")
            two.heard.questions[0].answer(b"zero")
            two.heard.questions[0].answer(b"twice")
            two.heard.questions[1].fail("no such queue")
            assert await asked[2] == b"two" and await asked[0] == b"zero"
            with pytest.raises(AskFailed, match="no such queue"):
                await asked[1]
            with pytest.raises(AskFailed, match="in time"):
                await one.links.ask(2, b"late", 0.05)
            two.heard.questions[3].answer(b"too late")
            with pytest.raises(AskFailed, match="not a member"):
                await one.links.ask(9, b"", 1)
            # The link goes while an answer is awaited.
            open_one = asyncio.ensure_future(one.links.ask(2, b"open", 20))
            await until(lambda: len(two.heard.questions) == 5)
            await two.close()
            with pytest.raises(AskFailed, match="lost before it answered"):
                await open_one
            two.heard.questions[4].answer(b"to nobody")
            with pytest.raises(AskFailed, match="no link"):
                await one.links.ask(2, b"", 1)

    run(test)


def test_open_questions_are_bounded_on_both_sides(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2], replace(SETTINGS, questions_max=3)) as (one, two):
            asked = [asyncio.ensure_future(one.links.ask(2, b"", 20)) for _ in range(4)]
            with pytest.raises(AskFailed, match="too many questions are open"):
                await asked[3]
            assert len(two.heard.questions) == 3
            outgoing = one.links.links[2].outgoing[Purpose.TRAFFIC]
            outgoing.asks._outstanding_max = 3
            with pytest.raises(AskFailed, match="3 questions"):
                await one.links.ask(2, b"", 20)
            for question in two.heard.questions:
                question.answer(b"done")
            assert await asyncio.gather(*asked[:3]) == [b"done"] * 3

    run(test)


def test_traffic_waits_for_room_and_hears_of_it(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2], replace(SETTINGS, traffic_bytes_max=1 << 20)) as (one, two):
            incoming = two.links.links[1].incoming[Purpose.TRAFFIC]
            incoming.transport.pause_reading()
            sent = 0
            for _ in range(1000):
                if not one.links.send_traffic(2, 1, bytes(1 << 16)):
                    break
                sent += 1
                await asyncio.sleep(0)
            else:
                raise AssertionError("nothing bounds what waits")
            assert one.heard.drains == [] and one.links.links[2].statistics.dropped == 1
            # Consensus has a connection of its own.
            one.links.send(2, b"vote")
            await until(lambda: two.heard.frames)
            incoming.transport.resume_reading()
            await until(lambda: one.heard.drains == [2] and len(two.heard.pipes) == sent)

    run(test)


def test_too_much_consensus_closes_the_connection_and_nothing_follows(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2], replace(SETTINGS, consensus_bytes_max=1 << 20)) as (one, two):
            before = one.links.links[2].outgoing[Purpose.CONSENSUS]
            two.links.links[1].incoming[Purpose.CONSENSUS].transport.pause_reading()
            for number in range(400):
                one.links.send(2, b"%03d" % number + bytes(1 << 16))
            # A small one would have had room, but it may not overtake what was lost.
            one.links.send(2, b"small")
            losses = len(one.heard.losses)
            await until(lambda: before.ended)
            await until(lambda: one.links.links[2].is_up and len(one.heard.losses) > losses)
            one.links.send(2, b"after")
            await until(lambda: two.heard.frames and two.heard.frames[-1][1] == b"after")
            assert (1, b"small") not in two.heard.frames
            numbers = [int(frame[:3]) for _, frame in two.heard.frames[:-1]]
            assert numbers == list(range(len(numbers)))

    run(test)


def test_silence_ends_a_connection_and_it_comes_back(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2], replace(SETTINGS, idle_s=2.0)) as (one, two):
            two.links.links[1].incoming[Purpose.CONSENSUS].transport.pause_reading()
            await until(lambda: one.heard.downs and two.heard.downs)
            # Both sides hear nothing; the first that notices closes, the other sees that.
            reasons = [reason for _, reason in one.heard.downs + two.heard.downs]
            assert any("nothing was heard for 2 s" in reason for reason in reasons), reasons
            await until(lambda: len(one.heard.ups) >= 2)
            assert one.links.links[2].statistics.losses >= 1

    run(test)


def test_a_restarted_node_is_recognised_and_an_older_life_is_not_let_in(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2]) as (one, two):
            port = two.address.port
            older = two.identity
            await two.close()
            await until(lambda: one.heard.downs)
            again = Node(cluster[1])
            try:
                assert again.identity.incarnation > older.incarnation
                again.listen(port=port)
                await meet(one, again)
                again.links.send(1, b"new life")
                await until(lambda: (2, b"new life") in one.heard.frames)
                impostor = Node(cluster[1], identity=older)
                try:
                    await impostor.links.set_members({1: one.address})
                    await until(lambda: "newer than" in impostor.links.links[1].statistics.last_error)
                    impostor.links.send(1, b"old life")
                    assert (
                        one.links.links[2].incoming[Purpose.CONSENSUS].hello.incarnation == again.identity.incarnation
                    )
                finally:
                    await impostor.close()
            finally:
                await again.close()

    run(test)


def test_a_newer_connection_takes_the_place_of_the_older(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2]) as (one, two):
            link = two.links.links[1]
            older = link.incoming[Purpose.CONSENSUS]
            # The dialling side notices the loss first; the other still has the old connection.
            one.links.links[2].outgoing[Purpose.CONSENSUS].transport.abort("cut")
            await until(lambda: link.incoming.get(Purpose.CONSENSUS) not in (older, None))
            await until(lambda: one.links.links[2].is_up)
            two.links.message(older, 16, 0, b"late words of the old connection")
            one.links.send(2, b"fresh")
            await until(lambda: two.heard.frames)
            assert two.heard.frames == [(1, b"fresh")]

    run(test)


def test_what_the_listener_objects_to_closes_the_connection(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2]) as (one, two):
            two.heard.objection = "a payload that is not what it says"
            one.links.send(2, b"wrong")
            await until(lambda: two.heard.downs)
            assert "a payload that is not what it says" in two.heard.downs[0][1]
            two.heard.objection = ""
            await until(lambda: one.links.links[2].is_up and two.links.links[1].is_up)

    run(test)


def test_a_probe_says_which_node_is_there(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster[:2]) as (one, two):
            welcome = await one.links.probe(two.address)
            assert (welcome.node, welcome.name, welcome.incarnation) == (2, "node2", two.identity.incarnation)
            address = two.address
            await two.close()
            with pytest.raises(ClusterError, match="cannot connect"):
                await one.links.probe(address)

    run(test)


def test_members_that_leave_are_not_dialled_and_not_let_in(cluster: list[Files]) -> None:
    async def test() -> None:
        async with linked(cluster) as (one, two, three):
            await one.links.set_members({1: one.address, 2: two.address})
            assert set(one.links.links) == {2} and (3, "it is not a member any more") in one.heard.downs
            await until(lambda: "not a member" in three.links.links[1].statistics.last_error)
            one.links.send(2, b"still here")
            await until(lambda: (1, b"still here") in two.heard.frames)

    run(test)
