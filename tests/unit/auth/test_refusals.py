"""What is kept of refusals: some of everybody."""

from __future__ import annotations

from leveret.auth.refusals import ANOTHER_S, AT_ONCE_MAX, USERS_MAX, FairRing, RefusalShares


def test_a_user_has_some_at_once_and_then_one_in_a_while() -> None:
    shares = RefusalShares()
    heard = [shares.take("eve", 5.0) for _ in range(AT_ONCE_MAX + 7)]
    assert heard == [0] * AT_ONCE_MAX + [None] * 7
    assert shares.take("ann", 5.0) == 0, "others have theirs"
    assert shares.take("eve", 5.0 + ANOTHER_S) == 7, "and what was not noted is told"
    assert shares.take("eve", 5.0 + ANOTHER_S) is None


def test_a_clock_that_goes_back_gives_nothing() -> None:
    shares = RefusalShares()
    for _ in range(AT_ONCE_MAX):
        shares.take("eve", 1000.0)
    assert shares.take("eve", 0.0) is None


def test_users_are_bounded() -> None:
    shares = RefusalShares()
    for number in range(USERS_MAX + 10):
        shares.take(str(number), 5.0)
    assert len(shares._shares) == USERS_MAX


def test_the_ring_gives_way_at_whoever_has_most() -> None:
    ring: FairRing[int] = FairRing(10)
    ring.append("ann", -1)
    ring.append("bob", -2)
    for number in range(100):
        ring.append("eve", number)
    assert sorted(ring.entries()) == [-2, -1, 92, 93, 94, 95, 96, 97, 98, 99]
    for number in range(100, 120):
        ring.append("bob", number)
    assert -1 in ring.entries()
    assert len(ring.entries()) == 10
