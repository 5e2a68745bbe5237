"""Addresses of nodes."""

from __future__ import annotations

import pytest

from leveret.cluster.links.address import PORT, Address, parse_address
from leveret.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("rabbit1", Address("rabbit1", PORT)),
        ("10.0.0.1:7000", Address("10.0.0.1", 7000)),
        ("[::1]:7000", Address("::1", 7000)),
        ("[fe80::2]", Address("fe80::2", PORT)),
        ("fe80::2", Address("fe80::2", PORT)),
        ("unix:/run/leveret/node.sock", Address(path="/run/leveret/node.sock")),
    ],
)
def test_addresses_are_read_and_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "a b", "host:", "host:0", "host:65536", "host:x", "[::1", "[::1]7", "unix:here", ":7000", "a/b", "x\n"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)
