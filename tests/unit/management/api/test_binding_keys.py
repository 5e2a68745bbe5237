"""Bindings by their names in paths."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from leveret.catalog.records import BindingRecord, QueueRecord
from leveret.catalog.topology import Topology
from leveret.management.api.binding_keys import (
    bindings_between,
    described,
    find_binding,
    location_of,
    properties_key,
)


@pytest.mark.parametrize(
    ("routing_key", "expected"),
    [
        ("", "~"),
        ("a.b", "a.b"),
        ("a.#", "a.%23"),
        ("b.*", "b.%2A"),
        ("a b", "a+b"),
        ("~", "%7E"),
        ("é/x", "%C3%A9%2Fx"),
    ],
)
def test_a_key_without_arguments_is_the_encoded_routing_key(routing_key: str, expected: str) -> None:
    assert properties_key(routing_key, {}) == expected


def test_arguments_add_a_digest_that_does_not_hang_on_their_order() -> None:
    first = properties_key("k", {"a": 1, "b": "x"})
    assert first == properties_key("k", {"b": "x", "a": 1})
    assert first != properties_key("k", {"a": 2, "b": "x"})
    assert first.startswith("k~")
    assert len(first) == len("k~") + 6
    assert properties_key("", {"a": 1}).startswith("~")


def test_a_location_is_encoded_twice() -> None:
    assert location_of("q1", "a.#", {}) == "q1/a.%2523"
    assert location_of("q1", "", {}) == "q1/~"
    assert unquote(location_of("q 1", "a.#", {"x": 1}).split("/")[1]) == properties_key("a.#", {"x": 1})


def topology_with(*bindings: BindingRecord) -> Topology:
    topology = Topology()
    topology.add_queue(QueueRecord("/", "q", "classic", True, False, 0, {}))
    for one in bindings:
        topology.bind(one)
    return topology


def test_bindings_are_found_by_their_key_alone() -> None:
    plain = BindingRecord("/", "x", True, "q", "k", {})
    with_arguments = BindingRecord("/", "x", True, "q", "k", {"a": 1})
    other = BindingRecord("/", "x", False, "q", "k", {})
    topology = topology_with(plain, with_arguments, other)
    assert bindings_between(topology, "x", True, "q") == [plain, with_arguments]
    assert find_binding(topology, "x", True, "q", "k") is plain
    key = described(with_arguments)["properties_key"]
    assert find_binding(topology, "x", True, "q", key) is with_arguments
    assert find_binding(topology, "x", False, "q", "k") is other
    assert find_binding(topology, "x", True, "q", "~") is None
    assert find_binding(topology, "y", True, "q", "k") is None


def test_every_queue_is_bound_to_the_default_exchange() -> None:
    topology = topology_with()
    found = find_binding(topology, "", True, "q", "q")
    assert found is not None
    assert described(found) == {
        "source": "",
        "vhost": "/",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "q",
        "arguments": {},
        "properties_key": "q",
    }
    assert find_binding(topology, "", True, "missing", "missing") is None
    assert find_binding(topology, "", False, "q", "q") is None
