"""How many publishers are held up, how often that began, and for how long they were."""

from __future__ import annotations

from leveret.broker.blocked_connections import BlockedConnections


def test_time_counts_for_each_while_it_lasts() -> None:
    now = 100.0
    blocked_connections = BlockedConnections(lambda: now)
    blocked_connections.note(1, False)
    assert (blocked_connections.count, blocked_connections.begun_total, blocked_connections.seconds_total) == (
        0,
        0,
        0.0,
    )
    blocked_connections.note(1, True)
    now = 103.0
    blocked_connections.note(1, True)
    blocked_connections.note(2, True)
    now = 104.0
    assert (blocked_connections.count, blocked_connections.begun_total, blocked_connections.seconds_total) == (
        2,
        2,
        5.0,
    )
    blocked_connections.note(1, False)
    now = 110.0
    blocked_connections.note(1, False)
    assert (blocked_connections.count, blocked_connections.seconds_total) == (1, 11.0)
    blocked_connections.note(1, True)
    assert (blocked_connections.count, blocked_connections.begun_total) == (2, 3)
