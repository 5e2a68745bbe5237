"""How often strangers may ask."""

from __future__ import annotations

from leveret.cluster.members.join_limits import HOSTS_MAX, JoinLimits


def test_a_host_has_a_burst_and_a_rate() -> None:
    limits = JoinLimits(0.0, host_burst=2, host_rate=0.5)
    assert [limits.take("a", 0.0) for _ in range(3)] == [True, True, False]
    assert not limits.take("a", 1.0) and limits.take("a", 3.0) and limits.take("b", 3.0)
    assert limits.refused_total == 2


def test_all_together_are_bounded_and_hosts_are_forgotten() -> None:
    limits = JoinLimits(0.0, burst=5, rate=1.0)
    assert sum(limits.take(str(number), 0.0) for number in range(5000)) == 5
    assert len(limits._hosts) == HOSTS_MAX
