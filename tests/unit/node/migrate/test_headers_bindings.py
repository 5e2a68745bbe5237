"""Headers exchanges of RabbitMQ: those whose bindings would mean something else here get an argument, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.node.migrate.definitions import adapt, refusals
from leveret.node.migrate.findings import CHANGED


def definitions(kind: str, bound: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    exchange = {"name": "x", "vhost": "v", "type": kind, "durable": True, "arguments": arguments}
    binding = {"source": "x", "vhost": "v", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    return {
        "vhosts": [{"name": "v"}],
        "queues": [{"name": "q", "vhost": "v", "durable": True, "arguments": {}}],
        "exchanges": [exchange, {**exchange, "name": "other"}],
        "bindings": [{**binding, "arguments": bound}],
    }


@pytest.mark.parametrize("x_match", [{}, {"x-match": "all"}, {"x-match": "any"}], ids=["plain", "all", "any"])
@pytest.mark.parametrize("delayed", [False, True], ids=["headers", "delayed"])
def test_an_exchange_keeps_the_meaning_of_its_bindings(x_match: dict[str, Any], delayed: bool) -> None:
    given = (
        definitions("x-delayed-message", {"x-tier": 1, **x_match}, **{"x-delayed-type": "headers"})
        if delayed
        else definitions("headers", {"x-tier": 1, **x_match})
    )
    made, findings = adapt(given, "defs.json")
    ignoring, other = made["exchanges"]
    assert ignoring["arguments"].pop("x-headers-ignore-x") is True
    assert [ignoring, other] == given["exchanges"]
    assert made["bindings"] == given["bindings"]
    told = [(finding.verdict, finding.what) for finding in findings[1:]]
    assert told == [(CHANGED, "exchange 'x' in vhost 'v'")]
    assert "x-headers-ignore-x" in findings[1].text
    assert refusals(made, "defs.json") == []


@pytest.mark.parametrize(
    ("kind", "bound", "arguments"),
    [
        ("headers", {"tier": 1, "x-match": "any"}, {}),
        ("headers", {"x-tier": 1, "x-match": "any-with-x"}, {}),
        ("headers", {"x-tier": 1, "x-match": "all-with-x"}, {}),
        ("headers", {"x-tier": 1}, {"x-headers-ignore-x": False}),
        ("topic", {"x-tier": 1}, {}),
        ("x-delayed-message", {"x-tier": 1}, {"x-delayed-type": "topic"}),
    ],
)
def test_whatever_means_the_same_stays_as_it_is(kind: str, bound: dict[str, Any], arguments: dict[str, Any]) -> None:
    given = definitions(kind, bound, **arguments)
    made, findings = adapt(given, "defs.json")
    assert made == given
    assert findings[1:] == []
