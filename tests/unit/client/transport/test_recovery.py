"""When to connect to whom: every step of the machine, its pauses with dice that are known, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.transport.recovery import STEADY_S, Recovery, State

HIGHEST = 1.0
LOWEST = 0.0


def machine(
    hosts: int = 1,
    least: float = 1.0,
    most: float = 60.0,
    wait_s: float = 0.0,
    give_up_after_s: float | None = None,
    dice: float = HIGHEST,
    now: float = 100.0,
) -> Recovery:
    return Recovery(hosts, least, most, wait_s, give_up_after_s, lambda: dice, now)


def opened(recovery: Recovery, now: float) -> Recovery:
    recovery.opened(now)
    recovery.restored()
    return recovery


# ---- steps

ROADS: dict[State, Callable[[Recovery], Any]] = {
    State.CONNECTING: lambda machine: None,
    State.RESTORING: lambda machine: machine.opened(0),
    State.OPEN: lambda machine: opened(machine, 0),
    State.RECOVERING: lambda machine: opened(machine, 0).lost(0),
    State.CLOSED: lambda machine: machine.closed(),
}
STEPS: dict[str, Callable[[Recovery], Any]] = {
    "opened": lambda machine: machine.opened(1),
    "restored": lambda machine: machine.restored(),
    "lost": lambda machine: machine.lost(1),
    "closed": lambda machine: machine.closed(),
}
ALLOWED = {
    (State.CONNECTING, "opened"): State.RESTORING,
    (State.RECOVERING, "opened"): State.RESTORING,
    (State.RESTORING, "restored"): State.OPEN,
    (State.RESTORING, "lost"): State.RECOVERING,
    (State.OPEN, "lost"): State.RECOVERING,
    **{(state, "closed"): State.CLOSED for state in State},
}


@pytest.mark.parametrize(("state", "step"), list(product(State, STEPS)))
def test_every_step_from_every_state(state: State, step: str) -> None:
    recovery = machine()
    ROADS[state](recovery)
    assert recovery.state is state
    if (state, step) in ALLOWED:
        STEPS[step](recovery)
        assert recovery.state is ALLOWED[state, step]
    else:
        with pytest.raises(AssertionError, match=f"{state.value} cannot be {step}"):
            STEPS[step](recovery)
        assert recovery.state is state


# ---- pauses


def test_pauses_double_up_to_the_longest() -> None:
    recovery = opened(machine(least=1, most=10), 100)
    recovery.lost(200)
    assert [recovery.failed(200) for _ in range(6)] == [1, 2, 4, 8, 10, 10]


def test_pauses_are_a_random_part_of_the_longest_but_never_less_than_half() -> None:
    for dice, expected in ((LOWEST, [0.5, 1, 2]), (0.5, [0.75, 1.5, 3]), (HIGHEST, [1, 2, 4])):
        recovery = opened(machine(dice=dice), 100)
        recovery.lost(200)
        assert [recovery.failed(200) for _ in range(3)] == expected


def test_the_first_attempt_after_a_good_connection_comes_soon() -> None:
    for dice in (LOWEST, 0.25, HIGHEST):
        recovery = opened(machine(least=0.5, dice=dice), 100)
        assert recovery.lost(100 + STEADY_S) == 0.5 * dice


def test_a_thousand_attempts_do_not_overflow() -> None:
    recovery = opened(machine(), 100)
    recovery.lost(200)
    assert [recovery.failed(200) for _ in range(5000)][-1] == 60


def test_a_connection_that_does_not_last_backs_off_although_every_login_succeeds() -> None:
    recovery, now, pauses = opened(machine(most=20), 100), 100.0, []
    for _ in range(7):
        now += STEADY_S - 1
        pauses.append(recovery.lost(now))
        opened(recovery, now)
    assert pauses == [1, 2, 4, 8, 16, 20, 20]


def test_one_that_lasts_ends_the_flapping() -> None:
    recovery = opened(machine(), 100)
    assert [recovery.lost(101), opened(recovery, 101).lost(102)] == [1, 2]
    assert opened(recovery, 102).lost(102 + STEADY_S) == 1
    assert recovery.failed(200) == 1
    assert opened(recovery, 200).lost(201) == 1


def test_failures_after_flapping_go_on_from_there() -> None:
    recovery = opened(machine(), 100)
    recovery.lost(101)
    opened(recovery, 101).lost(102)
    assert [recovery.failed(102), recovery.failed(102)] == [4, 8]


def test_one_that_is_lost_before_all_is_restored_did_not_last() -> None:
    recovery = opened(machine(), 100)
    recovery.lost(200)
    recovery.opened(300)
    assert recovery.lost(400) == 1, "a long restore is not a steady connection"


# ---- hosts


def test_all_hosts_get_a_chance_before_anybody_pauses() -> None:
    recovery = opened(machine(hosts=3), 100)
    recovery.lost(200)
    tried, pauses = [], []
    for _ in range(7):
        tried.append(recovery.next_host())
        pauses.append(recovery.failed(200))
    assert tried == [0, 1, 2, 0, 1, 2, 0]
    assert pauses == [0, 0, 1, 0, 0, 2, 0]


def test_a_lost_host_is_tried_first_again() -> None:
    recovery = machine(hosts=3)
    recovery.failed(100)
    assert recovery.next_host() == 1
    opened(recovery, 100)
    recovery.lost(200)
    assert recovery.next_host() == 1
    assert recovery.attempts == 0


def test_a_host_that_drops_us_makes_room_for_another() -> None:
    recovery = opened(machine(hosts=2), 100)
    recovery.lost(101)
    assert recovery.next_host() == 1
    opened(recovery, 101).lost(102)
    assert recovery.next_host() == 0


# ---- giving up


def test_the_first_connect_tries_every_host_once() -> None:
    recovery = machine(hosts=3)
    assert [recovery.failed(100) for _ in range(3)] == [0, 0, None]


def test_the_first_connect_waits_as_long_as_it_is_told() -> None:
    recovery = machine(wait_s=5)
    assert recovery.failed(100) == 1
    assert recovery.failed(101) == 2
    # Not 4: the last attempt is when the time is over.
    assert recovery.failed(103) == 2
    assert recovery.failed(105) is None


def test_a_lost_connection_is_tried_for_ever_unless_told_otherwise() -> None:
    recovery = opened(machine(wait_s=0), 100)
    recovery.lost(200)
    assert recovery.failed(10**9) == 1


def test_recovery_is_given_up_in_time() -> None:
    recovery = opened(machine(hosts=2, give_up_after_s=10), 100)
    assert recovery.lost(200) == 1
    assert [recovery.failed(209), recovery.failed(209)] == [0, 1]
    assert [recovery.failed(211), recovery.failed(211)] == [0, None]


def test_every_loss_has_its_own_time() -> None:
    recovery = opened(machine(give_up_after_s=10), 100)
    recovery.lost(200)
    opened(recovery, 209)
    assert recovery.lost(300) == 1
    assert recovery.lost_at == 300
    assert recovery.failed(305) == 1
    # One that was open again was recovered, however short it lasted.
    opened(recovery, 306).lost(307)
    assert recovery.lost_at == 307
    assert recovery.failed(316) == 1
    assert recovery.failed(317) is None


def test_logins_that_never_come_to_anything_are_given_up_too() -> None:
    recovery = opened(machine(give_up_after_s=10), 100)
    recovery.lost(200)
    recovery.opened(205)
    assert recovery.lost(206) == 1
    assert recovery.lost_at == 200
    recovery.opened(209)
    assert recovery.lost(210) is None


def test_one_that_is_lost_at_once_after_the_first_login_is_recovered() -> None:
    recovery = machine(wait_s=0)
    recovery.opened(100)
    assert recovery.lost(100) == 1
    assert recovery.failed(200) == 2


@given(
    st.integers(1, 4),
    st.floats(0.01, 10),
    st.floats(1, 10),
    st.lists(st.sampled_from(["fail", "open", "restore", "lose", "time"]), max_size=60),
    st.floats(0, 1),
)
def test_pauses_are_never_longer_than_the_longest_nor_negative(
    hosts: int, least: float, factor: float, events: list[str], dice: float
) -> None:
    recovery = Recovery(hosts, least, least * factor, 1e9, None, lambda: dice, 0)
    now = 0.0
    in_a_row = 0
    for event in events:
        pause: float | None = None
        if event == "fail" and recovery.state in (State.CONNECTING, State.RECOVERING):
            pause = recovery.failed(now)
            assert pause is not None
        elif event == "open" and recovery.state in (State.CONNECTING, State.RECOVERING):
            recovery.opened(now)
        elif event == "restore" and recovery.state is State.RESTORING:
            recovery.restored()
        elif event == "lose" and recovery.state in (State.RESTORING, State.OPEN):
            pause = recovery.lost(now)
            assert pause is not None
            in_a_row = 0
        elif event == "time":
            now += STEADY_S
        if pause is not None:
            assert 0 <= pause <= least * factor
            in_a_row = in_a_row + 1 if pause == 0 and dice > 0 else 0
            assert in_a_row < hosts, "nobody hammers at all hosts without a pause"
        assert 0 <= recovery.next_host() < hosts
