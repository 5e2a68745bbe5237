"""Finding nodes: sources, and what is known of addresses, in any order of events."""

from __future__ import annotations

import pytest

from leveret.cluster.links.address import Address
from leveret.cluster.members.discovery import (
    ADDRESSES_MAX,
    Discovery,
    DnsHost,
    DnsService,
    Found,
    Listed,
    ListFile,
    Source,
    parse_list,
    parse_source,
)
from leveret.errors import ConfigError

A, B, C = Address("a", 1), Address("b", 1), Address("c", 1)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a:1", Listed(A)),
        ("unix:/run/a", Listed(Address(path="/run/a"))),
        ("dns:nodes.example.org", DnsHost("nodes.example.org", 25672)),
        ("dns:nodes.example.org:7000", DnsHost("nodes.example.org", 7000)),
        ("srv:_leveret._tcp.example.org", DnsService("_leveret._tcp.example.org")),
        ("file:/etc/leveret/nodes", ListFile("/etc/leveret/nodes")),
    ],
)
def test_sources_are_read(text: str, source: Source) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize("text", ["", "dns:", "srv:", "srv:a b", "srv:a:1", "file:here", "a:b"])
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_source(text)


def test_a_file_has_an_address_on_each_line() -> None:
    assert parse_list("# nodes\n\na:1\n b:1  # second\n") == [A, B]
    with pytest.raises(ConfigError, match="line 2"):
        parse_list("a:1\nno address here\n")


def test_nodes_are_found_in_any_order_and_found_again() -> None:
    discovery = Discovery(own=1)
    discovery.resolved([A, B, C, A], 0.0)
    assert discovery.due(0.0) == [A, B, C] and discovery.due(0.0) == []
    discovery.probed(A, Found(1, 5, "self", A), 0.0, 1.0)
    discovery.probed(B, None, 0.0, 1.0)
    discovery.probed(C, Found(3, 5, "three", C), 0.0, 1.0)
    assert discovery.nodes() == {3: Found(3, 5, "three", C)}
    # The one that did not answer is tried again soon, the others in a minute.
    assert discovery.due(0.4) == [] and discovery.due(0.5) == [B]
    discovery.probed(B, Found(2, 9, "two", B), 0.6, 1.0)
    assert set(discovery.nodes()) == {2, 3}
    assert discovery.due(60.0) == [A, C]
    # Node 3 has moved: an address that is gone is forgotten.
    discovery.resolved([A, B], 61.0)
    assert set(discovery.nodes()) == {2}
    discovery.probed(C, Found(3, 5, "three", C), 61.0, 1.0)
    assert set(discovery.nodes()) == {2}


def test_of_two_addresses_that_of_the_latest_life_counts() -> None:
    discovery = Discovery(own=1)
    discovery.resolved([A, B], 0.0)
    discovery.due(0.0)
    discovery.probed(A, Found(2, 8, "two", A), 0.0, 0.0)
    discovery.probed(B, Found(2, 7, "two", B), 0.0, 0.0)
    assert discovery.nodes()[2].address == A


def test_one_that_never_answers_is_tried_less_often_but_for_ever() -> None:
    discovery, now, pauses = Discovery(own=1), 0.0, []
    discovery.resolved([A], now)
    for _ in range(12):
        assert discovery.due(now) == [A]
        discovery.probed(A, None, now, 1.0)
        pauses.append(discovery._places[A].due - now)
        now = discovery._places[A].due
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0] and pauses[-1] == 15.0


def test_addresses_are_bounded() -> None:
    discovery = Discovery(own=1)
    discovery.resolved([Address("a", port) for port in range(1, ADDRESSES_MAX + 11)], 0.0)
    assert len(discovery.due(0.0)) == ADDRESSES_MAX and discovery.left_out == 10
