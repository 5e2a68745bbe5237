"""Budgets of bodies and answers, and the places of connections: who may have how much."""

from __future__ import annotations

import pytest

from leveret.management.http.budget import SMALL_BYTES, Budget, Hold
from leveret.management.http.errors import HttpError
from leveret.management.http.places import Places, Queue
from leveret.runtime.descriptors import Share

MIB = 2**20


def new_budget() -> Budget:
    return Budget("answers", "management.answers_bytes_max", 8 * MIB)


def test_one_user_has_at_most_half_and_the_others_the_rest() -> None:
    budget = new_budget()
    ann = [Hold(budget, "ann") for _ in range(3)]
    bob = Hold(budget, "bob")
    ann[0].reach(3 * MIB)
    ann[1].reach(MIB)
    with pytest.raises(HttpError) as refused:
        ann[2].reach(MIB)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    assert "management.answers_bytes_max" in str(refused.value.reason) and budget.refused_total == 1
    bob.reach(4 * MIB)
    assert not Hold(budget, "eve").has_room(MIB)
    for hold in (*ann, bob):
        hold.release()
    assert (budget.used, budget.used_by("ann"), budget.used_by("bob")) == (0, 0, 0)


def test_what_is_small_and_the_local_operator_are_never_refused() -> None:
    budget = new_budget()
    Hold(budget, "ann").grow(20 * MIB)
    Hold(budget, "probe").reach(SMALL_BYTES)
    Hold(budget, "operator", refusable=False).reach(MIB)
    assert not Hold(budget, "probe").has_room(SMALL_BYTES + 1)


def test_one_that_is_alone_may_have_any_size() -> None:
    hold = Hold(new_budget(), "ann")
    hold.reach(30 * MIB)
    # It grows, never shrinks, and is given back once.
    hold.reach(MIB)
    assert hold.size == 30 * MIB
    hold.release()
    hold.release()


def test_a_quarter_of_all_places_and_of_an_address_is_never_at_work() -> None:
    places, share = Places(per_address_max=8), Share("http", 12)
    for _ in range(6):
        assert places.may_work(share, "one")
        places.begin(share, "one")
    assert not places.may_work(share, "one") and places.may_work(share, "two") and places.may_work(share, "")
    for _ in range(3):
        places.begin(share, "two")
    assert not places.may_work(share, "three")
    places.end(share, "one")
    assert places.may_work(share, "three")


def test_an_address_has_its_limit_of_connections_and_the_unix_socket_none() -> None:
    places = Places(per_address_max=4)
    for _ in range(4):
        places.enter("one")
        places.enter("")
    assert places.is_full("one") and not places.is_full("two") and not places.is_full("")
    places.leave("one")
    assert not places.is_full("one") and places.connected("one") == 3


def test_a_queue_of_connections_knows_the_first_of_each_address() -> None:
    queue: Queue[str] = Queue()
    share, other = Share("http", 9), Share("local", 9)
    for name, address in (("a", "one"), ("b", "two"), ("c", "one")):
        queue.add(share, address, name)
    assert queue.first(share, None, 2) == ["a", "b"] and queue.first(share, "one", 9) == ["a", "c"]
    assert (queue.count(share, None), queue.count(share, "two"), queue.count(other, None)) == (3, 1, 0)
    queue.remove(share, "one", "a")
    assert queue.first(share, None, 1) == ["b"] and queue.first(share, "one", 1) == ["c"]
