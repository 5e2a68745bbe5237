"""Nodes with a known mistake: each must be caught, or the simulation would prove nothing."""

from __future__ import annotations

import pytest

from tests.simulation.campaign import simulate
from tests.simulation.checkers import Call, Checkers, Violation
from tests.simulation.engine_needed import engine_marks
from tests.simulation.world import Faults, World

pytestmark = engine_marks()

PEACE = Faults(10**9, 0.0, 0.0, 0.0, False)
SEEDS = 60
GROUP = 1


def caught(mistake: str) -> list[str]:
    """What seeds had to say about nodes with this mistake."""
    from leveret_raft import EngineFailed

    said = []
    for seed in range(SEEDS):
        try:
            simulate(seed, 1200, [mistake])
        except (Violation, EngineFailed) as error:
            said.append(str(error))
    return said


def test_a_node_that_acknowledges_before_its_sync_is_caught() -> None:
    said = caught("ack_before_sync")
    assert len(said) > SEEDS / 10, said
    # Most by the replica itself, which is told of entries that it has lost; some by what clients and leaders miss.
    assert any("synced entries are lost" in text for text in said), said
    assert any("leader completeness" in text or "safety" in text or "lost:" in text for text in said), said


def test_a_node_that_applies_uncommitted_entries_is_caught() -> None:
    said = caught("applies_uncommitted")
    assert len(said) > SEEDS / 20 and all("state machine safety" in text for text in said), said


def stalemate(mistakes: list[str]) -> World:
    """One replica votes, crashes, and is asked for its vote again in the same term by a candidate that knows of no
    other."""
    world = World(7, mistakes, PEACE)
    nodes = {number: world.nodes[number] for number in (1, 2, 3)}

    def status(number: int):  # type: ignore[no-untyped-def]
        return nodes[number].driver.engine.status(GROUP)

    def wait_for(what) -> None:  # type: ignore[no-untyped-def]
        for _ in range(5000):
            if what():
                return
            world.run_until(world.now + 1)
        raise AssertionError("it never came to that")

    wait_for(lambda: any(GROUP in node.leads for node in nodes.values()))
    outsider = next(number for number, node in nodes.items() if GROUP in node.leads)
    others = [number for number in nodes if number != outsider]
    term = status(outsider).term
    for other in others:
        world.network.cut(outsider, other)
        world.network.cut(other, outsider)
    # The two others elect one of them; nothing that the winner then says reaches the one that voted.
    wait_for(lambda: any(status(n).term > term and status(n).vote >> 32 not in (0, n) for n in others))
    voter = next(n for n in others if status(n).vote >> 32 not in (0, n))
    winner = next(n for n in others if n != voter)
    world.network.cut(winner, voter)
    wait_for(lambda: GROUP in nodes[winner].leads)
    world.network.cut(voter, winner)
    nodes[voter].crash()
    nodes[voter].start()
    world.network.restarted(voter)
    for pair in ((outsider, voter), (voter, outsider)):
        world.network.cuts.discard(pair)
        world.network.break_connection(*pair)
    wait_for(lambda: any(GROUP in nodes[n].leads and status(n).term > term for n in (outsider, voter)))
    return world


def test_a_node_that_votes_twice_is_caught() -> None:
    # By the second leader itself, or by the first entry that it writes.
    with pytest.raises(Violation, match=r"election safety|log matching"):
        stalemate(["votes_twice"])


def test_a_node_that_remembers_its_vote_is_not() -> None:
    world = stalemate([])
    assert sorted(world.checkers.history(GROUP).leaders)[-1] > 2


# ---- the checkers alone


def test_two_leaders_of_a_term_are_noticed() -> None:
    checkers = Checkers()
    checkers.elected(1, 4, 100)
    checkers.elected(1, 4, 100)
    checkers.elected(2, 4, 200)
    with pytest.raises(Violation, match="election safety"):
        checkers.elected(1, 4, 200)


def test_an_entry_that_is_two_things_is_noticed() -> None:
    checkers = Checkers()
    checkers.appended(1, 5, 2, b"d", b"one", 1)
    with pytest.raises(Violation, match="log matching"):
        checkers.appended(1, 5, 2, b"d", b"two", 1)
    with pytest.raises(Violation, match="log matching"):
        checkers.appended(1, 5, 2, b"d", b"one", 2)


def test_a_leader_that_lacks_what_was_committed_is_noticed() -> None:
    checkers = Checkers()
    checkers.applied(1, 100, 3, 7, 2, b"x", b"digest")
    checkers.has_log(1, 3, 200, 0, {})
    checkers.has_log(1, 4, 200, 0, {7: 2})
    checkers.has_log(1, 4, 200, 7, {})
    with pytest.raises(Violation, match="leader completeness"):
        checkers.has_log(1, 4, 200, 0, {7: 3})


def history(*applied: tuple[int, bytes], calls: list[Call]) -> Checkers:
    checkers = Checkers()
    for index, payload in applied:
        checkers.applied(1, 100, 1, index, 1, payload, b"%d" % index)
    checkers.calls = calls
    return checkers


def test_answers_that_are_not_true_are_noticed() -> None:
    one, two = Call(1, b"one", 1, 5, 2), Call(1, b"two", 6, 9, 3)
    history((2, b"one"), (3, b"two"), calls=[one, two]).finish()
    with pytest.raises(Violation, match="lost"):
        history((2, b"one"), calls=[one, two]).finish()
    with pytest.raises(Violation, match="nobody proposed"):
        history((2, b"one"), (3, b"what"), calls=[one]).finish()
    with pytest.raises(Violation, match="order"):
        history((2, b"two"), (3, b"one"), calls=[Call(1, b"one", 1, 5, 3), Call(1, b"two", 6, 9, 2)]).finish()
    with pytest.raises(Violation, match=r"at 3 and 2|at 2 and 3"):
        history((2, b"one"), (3, b"one"), calls=[one]).finish()
