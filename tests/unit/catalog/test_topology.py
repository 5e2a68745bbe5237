"""What follows from a change: bindings go with their ends, auto-delete exchanges with their last binding."""

from __future__ import annotations

from itertools import pairwise

import pytest

from leveret.catalog import commands
from leveret.catalog.topology import binding_key
from leveret.core.codec.field_types import Int8, Int64
from tests.unit.catalog.naming import catalog_of, exchange, queue, to_exchange, to_queue, told


def test_a_binding_is_made_once() -> None:
    catalog = catalog_of(exchange("x"), queue("q"))
    assert told(catalog.apply(commands.Bind(to_queue("x", "q", "k")))) == ["+binding x>q"]
    assert catalog.apply(commands.Bind(to_queue("x", "q", "k"))) == []


def test_bindings_differ_by_key_arguments_and_kind_of_destination() -> None:
    catalog = catalog_of(exchange("x"), exchange("same"), queue("same"))
    variants = [
        to_queue("x", "same"),
        to_queue("x", "same", "k"),
        to_queue("x", "same", a=1),
        to_queue("x", "same", a=2),
        to_queue("x", "same", a=True),
        to_queue("x", "same", a="1"),
        to_exchange("x", "same"),
    ]
    for binding in variants:
        assert told(catalog.apply(commands.Bind(binding))) == ["+binding x>same"]
    assert len(catalog.topologies["/"].bindings_from["x"]) == len(variants)
    for binding in variants:
        assert told(catalog.apply(commands.Unbind(binding))) == ["-binding x>same"]
    assert catalog.topologies["/"].bindings_from == {}


def test_the_order_of_arguments_does_not_make_another_binding() -> None:
    assert binding_key(to_queue("x", "q", a=1, b=2)) == binding_key(to_queue("x", "q", b=2, a=1))


def test_arguments_of_another_field_type_make_another_binding() -> None:
    keys = {binding_key(to_queue("x", "q", a=value)) for value in (1, Int8(1), Int64(1), 1.0)}
    assert len(keys) == 4


def test_a_deleted_queue_takes_its_bindings_along() -> None:
    catalog = catalog_of(exchange("x"), queue("q"), queue("other"), to_queue("x", "q"), to_queue("x", "other"))
    assert told(catalog.apply(commands.DeleteQueue("/", "q"))) == ["-binding x>q", "-queue q"]
    assert list(catalog.topologies["/"].bindings_to) == [(True, "other")]


def test_a_deleted_exchange_takes_bindings_to_and_from_it_along() -> None:
    catalog = catalog_of(
        exchange("up"), exchange("x"), queue("q"), to_exchange("up", "x"), to_queue("x", "q"), to_queue("up", "q")
    )
    changes = told(catalog.apply(commands.DeleteExchange("/", "x")))
    assert changes == ["-binding up>x", "-binding x>q", "-exchange x"]
    assert list(catalog.topologies["/"].bindings_from) == ["up"]


def test_a_queue_and_an_exchange_of_one_name_keep_their_bindings_apart() -> None:
    catalog = catalog_of(exchange("x"), exchange("n"), queue("n"), to_queue("x", "n"), to_exchange("x", "n"))
    assert told(catalog.apply(commands.DeleteQueue("/", "n"))) == ["-binding x>n", "-queue n"]
    assert list(catalog.topologies["/"].bindings_to) == [(False, "n")]


# ---- auto-delete


def test_an_auto_delete_exchange_goes_with_its_last_binding() -> None:
    catalog = catalog_of(exchange("x", True), queue("a"), queue("b"), to_queue("x", "a"), to_queue("x", "b"))
    assert told(catalog.apply(commands.Unbind(to_queue("x", "a")))) == ["-binding x>a"]
    assert told(catalog.apply(commands.Unbind(to_queue("x", "b")))) == ["-binding x>b", "-exchange x"]


def test_an_auto_delete_exchange_goes_with_the_last_queue_bound_to_it() -> None:
    catalog = catalog_of(exchange("x", True), queue("q"), to_queue("x", "q", "1"), to_queue("x", "q", "2"))
    changes = told(catalog.apply(commands.DeleteQueue("/", "q")))
    assert changes == ["-binding x>q", "-binding x>q", "-queue q", "-exchange x"]


def test_an_auto_delete_exchange_that_was_never_bound_stays() -> None:
    catalog = catalog_of(exchange("x", True), queue("q"))
    catalog.apply(commands.Unbind(to_queue("x", "q")))
    catalog.apply(commands.DeleteQueue("/", "q"))
    assert "x" in catalog.topologies["/"].exchanges


def test_losing_a_binding_to_it_does_not_end_an_auto_delete_exchange() -> None:
    catalog = catalog_of(exchange("up"), exchange("x", True), queue("q"), to_exchange("up", "x"), to_queue("x", "q"))
    assert told(catalog.apply(commands.Unbind(to_exchange("up", "x")))) == ["-binding up>x"]
    assert "x" in catalog.topologies["/"].exchanges


def test_other_exchanges_stay_without_bindings() -> None:
    catalog = catalog_of(exchange("x"), queue("q"), to_queue("x", "q"))
    assert told(catalog.apply(commands.Unbind(to_queue("x", "q")))) == ["-binding x>q"]


def test_a_chain_of_auto_delete_exchanges_goes_together() -> None:
    catalog = catalog_of(
        exchange("a", True),
        exchange("b", True),
        exchange("c", True),
        queue("q"),
        to_exchange("a", "b"),
        to_exchange("b", "c"),
        to_queue("c", "q"),
    )
    assert told(catalog.apply(commands.DeleteQueue("/", "q"))) == [
        "-binding c>q",
        "-queue q",
        "-binding b>c",
        "-exchange c",
        "-binding a>b",
        "-exchange b",
        "-exchange a",
    ]


@pytest.mark.parametrize("length", [1, 3, 2000])
def test_a_chain_of_any_length_goes_with_bindings_before_their_ends(length: int) -> None:
    names = [f"x{number}" for number in range(length)]
    catalog = catalog_of(*(exchange(name, True) for name in names), queue("q"))
    for upper, lower in pairwise(names):
        catalog.apply(commands.Bind(to_exchange(upper, lower)))
    catalog.apply(commands.Bind(to_queue(names[-1], "q")))
    changes = told(catalog.apply(commands.DeleteQueue("/", "q")))
    assert [change for change in changes if change.startswith("-exchange")] == [
        f"-exchange {name}" for name in reversed(names)
    ]
    for upper, lower in pairwise(names):
        assert changes.index(f"-binding {upper}>{lower}") < changes.index(f"-exchange {lower}")
    assert set(catalog.topologies["/"].exchanges).isdisjoint(names)


def test_a_chain_stops_at_an_exchange_that_has_other_bindings() -> None:
    catalog = catalog_of(
        exchange("a", True), exchange("b", True), queue("q"), queue("kept"), to_exchange("a", "b"), to_queue("b", "q")
    )
    catalog.apply(commands.Bind(to_queue("a", "kept")))
    changes = told(catalog.apply(commands.DeleteQueue("/", "q")))
    assert "-exchange b" in changes
    assert "-exchange a" not in changes


def test_a_binding_of_an_exchange_to_itself_goes_with_it_once() -> None:
    catalog = catalog_of(exchange("x"), to_exchange("x", "x"))
    assert told(catalog.apply(commands.DeleteExchange("/", "x"))) == ["-binding x>x", "-exchange x"]
    assert catalog.topologies["/"].bindings_to == {}


def test_an_auto_delete_exchange_bound_to_itself_goes_with_that_binding() -> None:
    catalog = catalog_of(exchange("x", True), to_exchange("x", "x"))
    assert told(catalog.apply(commands.Unbind(to_exchange("x", "x")))) == ["-binding x>x", "-exchange x"]


def test_auto_delete_exchanges_in_a_circle_go_together() -> None:
    catalog = catalog_of(exchange("a", True), exchange("b", True), to_exchange("a", "b"), to_exchange("b", "a"))
    changes = told(catalog.apply(commands.DeleteExchange("/", "a")))
    assert sorted(changes) == ["-binding a>b", "-binding b>a", "-exchange a", "-exchange b"]
