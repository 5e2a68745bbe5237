"""Back-off: how many tries somebody who guesses gets, and whom that holds up."""

from __future__ import annotations

import pytest

from leveret.auth.backoff import (
    ENTRIES_MAX,
    FORGET_S,
    LINE_S_MAX,
    PAUSE_S,
    WAITING_MAX,
    Backoff,
    is_loopback,
    network_of,
)

HERE, THERE = "192.0.2.1", "192.0.2.2"


def guessing(backoff: Backoff, user: str, host: str, now: float, tries: int) -> list[float | None]:
    """Wrong passwords, all at the same moment: how long each has to wait."""
    waits = []
    for _ in range(tries):
        waits.append(backoff.arrive(user, host, now))
        backoff.failed(host, now)
    return waits


def test_the_first_failures_are_free_and_then_tries_are_a_second_apart() -> None:
    assert guessing(Backoff(3), "ann", HERE, 100.0, 7) == [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_line_that_is_too_long_is_not_joined() -> None:
    waits = guessing(Backoff(1), "ann", HERE, 100.0, 20)
    served = [wait for wait in waits if wait is not None]
    assert max(served) == LINE_S_MAX
    assert waits[len(served) :] == [None] * (20 - len(served))


def test_ten_thousand_tries_of_a_minute_are_sixty() -> None:
    backoff, made = Backoff(5), 0
    for number in range(10_000):
        now = number * 0.006
        if (wait := backoff.arrive("ann", HERE, now)) is not None and now + wait < 60.0:
            made += 1
            backoff.failed(HERE, now)
    assert made <= 5 + 60


def test_a_user_of_another_address_or_another_user_of_the_same_is_not_held_up_for_longer_than_a_pause() -> None:
    backoff = Backoff(3)
    guessing(backoff, "ann", HERE, 100.0, 10)
    assert backoff.arrive("ann", THERE, 100.0) == 0.0
    assert backoff.arrive("bob", HERE, 100.0) == PAUSE_S
    assert not backoff.is_held_up("bob", HERE, 100.0)
    assert backoff.is_held_up("ann", HERE, 100.0)


def test_many_names_from_one_address_wait_as_well() -> None:
    backoff = Backoff(3)
    waits = [guessing(backoff, f"user{number}", HERE, 100.0, 1)[0] for number in range(6)]
    assert waits == [0.0, 0.0, 0.0, PAUSE_S, PAUSE_S, PAUSE_S]
    assert [backoff.joins(HERE, 100.0) for _ in range(WAITING_MAX + 1)] == [True] * WAITING_MAX + [False]
    backoff.leaves(HERE)
    assert backoff.joins(HERE, 100.0)


def test_a_success_clears_the_user_but_not_the_address() -> None:
    backoff = Backoff(3)
    guessing(backoff, "ann", HERE, 100.0, 5)
    backoff.succeeded("ann", HERE)
    assert not backoff.is_held_up("ann", HERE, 100.0)
    assert backoff.arrive("ann", HERE, 100.0) == PAUSE_S


def test_a_try_that_hangs_up_counts() -> None:
    backoff = Backoff(3)
    assert [backoff.arrive("ann", HERE, 100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]


def test_failures_are_forgotten_after_a_while() -> None:
    backoff = Backoff(3)
    guessing(backoff, "ann", HERE, 100.0, 5)
    later = 100.0 + FORGET_S
    assert not backoff.is_held_up("ann", HERE, later)
    assert guessing(backoff, "ann", HERE, later + 0.1, 3) == [0.0, 0.0, 0.0]


def test_none_is_held_up_if_failures_do_not_count() -> None:
    backoff = Backoff(0)
    assert guessing(backoff, "ann", HERE, 100.0, 50) == [0.0] * 50
    assert not backoff.is_held_up("ann", HERE, 100.0)
    assert not backoff._pairs and not backoff._addresses


def test_a_flood_of_names_and_addresses_is_bounded() -> None:
    backoff = Backoff(3)
    for number in range(ENTRIES_MAX + 500):
        guessing(backoff, f"user{number}", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 100.0, 1)
    assert len(backoff._pairs) == len(backoff._addresses) == ENTRIES_MAX
    assert ("user0", "10.0.0.0") not in backoff._pairs


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", ""])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "192.168.1.1", "128.0.0.1", "0.0.0.0", "::ffff:10.0.0.1", "2001:db8::1", "fe80::1%eth0", "::2", "x"],
)
def test_addresses_of_others(host: str) -> None:
    assert not is_loopback(host)
