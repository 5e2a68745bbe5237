"""Topology in files: what is read, what is refused and where, and that what is written is read back as the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leveret.client.connection import Connection
from leveret.client.topology import (
    Binding,
    Exchange,
    InvalidTopology,
    Queue,
    Retry,
    Topology,
    dump_topology,
    parse_topology,
    read_topology,
)
from tests.client.topology_scene import Scene

TOML = """
[[exchanges]]
name = "shop"
type = "topic"
alternate_exchange = "unrouted"

[[queues]]
name = "orders"
max_length = 1000
arguments = { "x-new" = [1, { a = true }] }

[[queues]]
name = "mail"
durable = false

[[bindings]]
source = "shop"
destination = "orders"
routing_key = "order.*"

[[bindings]]
source = "shop"
destination = "audit"
to = "exchange"

[[retries]]
queue = "mail"
delays_s = [10, 60]
max_retries = 5
"""

THINGS: list[Any] = [
    Exchange("shop", "topic", alternate_exchange="unrouted"),
    Queue("orders", max_length=1000, arguments={"x-new": [1, {"a": True}]}),
    Retry(Queue("mail", durable=False), delays_s=(10, 60), max_retries=5),
    Binding("shop", "orders", "order.*"),
    Binding("shop", "audit", to="exchange"),
]


def test_toml() -> None:
    assert parse_topology(TOML) == THINGS


def test_written_and_read_back() -> None:
    for format in ("toml", "json"):
        assert parse_topology(dump_topology(THINGS, format), format) == THINGS
    assert parse_topology("") == [] == parse_topology(dump_topology([]))
    assert dump_topology([Retry("q")]) == '[[retries]]\nqueue = "q"\ndelays_s = [10]\n'


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.recursive(
    st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@example(arguments={"line end\n": 1, "n": {"a\n": 1}}, key="", format="toml")
@given(arguments=st.dictionaries(texts, plain, max_size=4), key=texts, format=st.sampled_from(["toml", "json"]))
def test_any_arguments_are_read_back_as_they_were(arguments: dict[str, Any], key: str, format: str) -> None:
    arguments = {name: value for name, value in arguments.items() if not (format == "json" and _is_infinite(value))}
    things = [Queue("q", arguments={f"y-{name}": value for name, value in arguments.items()}), Binding("x", "q", key)]
    back = parse_topology(dump_topology(things, format), format)
    assert back == things
    assert repr(back) == repr(things)


def _is_infinite(value: Any) -> bool:
    return "inf" in repr(value)


def test_what_a_file_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes cannot stand in a TOML file"):
        dump_topology([Queue("q", arguments={"x": b"1"})])
    with pytest.raises(ValueError, match="NoneType cannot stand in a TOML file"):
        dump_topology([Queue("q", arguments={"x": None})])
    with pytest.raises(ValueError, match="bytes cannot stand in a file"):
        dump_topology([Queue("q", arguments={"x": b"1"})], "json")
    with pytest.raises(ValueError, match="format must be one of toml, json, not 'yaml'"):
        dump_topology([], "yaml")


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("[[queues]]\nname = 5", "queues[0].name", "Expected `str`, got `int`"),
        ("[[queues]]\nname = 'q'\nmax_length = '5'", "queues[0].max_length", "Expected `int | null`, got `str`"),
        ("[[queues]]\nname = 'q'\ncolour = 1", "queues[0]", "unknown field `colour`"),
        ("[[queus]]\nname = 'q'", "", "unknown field `queus`"),
        ("[[exchanges]]\ntype = 'topic'", "exchanges[0]", "missing required field `name`"),
        ("[[bindings]]\nsource = 'x'", "bindings[0]", "missing required field `destination`"),
        ("[[bindings]]\nsource = 'x'\ndestination = 'q'\nto = 'moon'", "bindings[0].to", "Invalid enum value 'moon'"),
        ("[[retries]]\nqueue = 'q'\nmax_retries = -1", "retries[0]", "max_retries must be"),
        ("queues = 5", "queues", "Expected `array`, got `int`"),
        ("[[queues]]\nname = 'q'\nmax_length = -1", "", "queue 'q': max_length (x-max-length) must be at least 0"),
        ("[[queues]]\nname = ''", "queues", "must have a name"),
        ("[[queues]]\nmax_length = 1\narguments = {x-max-length = 2}", "queues[0]", "max_length is 1, but"),
        ("[[queues", "", "this is no TOML"),
        (
            "[[queues]]\nname = 'q'\nexclusive = true\n[[retries]]\nqueue = 'q'",
            "retries[0]",
            "neither exclusive nor auto_delete",
        ),
    ],
)
def test_refused_with_the_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(InvalidTopology) as refused:
        parse_topology(text)
    assert refused.value.place == place
    assert problem in refused.value.text
    assert str(refused.value) == (f"{place}: {refused.value.text}" if place else refused.value.text)


def test_json_that_is_none() -> None:
    for text in ("[", "[]", '"queues"'):
        with pytest.raises(InvalidTopology):
            parse_topology(text, "json")


# ---- RabbitMQ's definitions

DEFINITIONS = {
    "rabbit_version": "3.10.8",
    "users": [{"name": "guest"}],
    "vhosts": [{"name": "/"}, {"name": "other"}],
    "policies": [],
    "exchanges": [
        {
            "name": "shop",
            "vhost": "/",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
    ],
    "queues": [
        {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}},
        {"name": "log", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}, "type": "stream"},
        {"name": "theirs", "vhost": "other", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "bindings": [
        {
            "source": "shop",
            "vhost": "/",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "#",
            "arguments": {},
        }
    ],
}


def test_definitions_of_a_broker() -> None:
    assert parse_topology(json.dumps(DEFINITIONS), "json") == [
        Exchange("shop", "topic"),
        Queue("orders", max_length=5),
        Queue("log", queue_type="stream"),
        Binding("shop", "orders", "#"),
    ]
    assert parse_topology(json.dumps(DEFINITIONS), "json", virtual_host="other") == [Queue("theirs")]


def test_definitions_are_checked_too() -> None:
    broken = {**DEFINITIONS, "queues": [{"name": "q", "durable": "yes", "auto_delete": False}]}
    with pytest.raises(InvalidTopology) as refused:
        parse_topology(json.dumps(broken), "json")
    assert refused.value.place == "queues[0].durable"


# ---- on a broker


def test_what_the_broker_exports_can_be_loaded(scene: Scene, tmp_path: Path) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        await topology.declare(
            Exchange("shop", "topic"), Queue("orders", max_length=5), Binding("shop", "orders", "a", arguments={"n": 1})
        )
        reply = scene.server.api.ask("GET", f"/definitions/{scene.virtual_host}")
        exported = parse_topology(json.dumps(reply.body), "json", scene.virtual_host)
        assert exported == parse_topology(topology.dump("json"), "json")

    scene.run(script)


def test_a_file_is_loaded(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(TOML.replace("audit", "shop"))

    async def script(_: Connection, topology: Topology) -> None:
        handles = await topology.load(path)
        assert [handle.name for handle in handles] == [
            "orders",
            "mail",
            "mail.retry.10s",
            "mail.retry.60s",
            "mail.parking_lot",
        ]
        inbox = await topology.declare_queue(Queue(exclusive=True))
        await topology.declare(Binding("shop", inbox))
        written = tmp_path / "written.json"
        written.write_text(topology.dump("json"))
        # What the broker named is not in it; nothing else is missing, and nothing is new.
        assert inbox.name not in written.read_text()
        assert len(read_topology(written)) == 2 + 5 + 5
        await topology.load(written)
        assert (await topology.diff(management=scene.management)).is_clean

    scene.run(script)


def test_the_file_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text("[[queues]]\nname = 5")
    with pytest.raises(InvalidTopology, match=r"shop\.toml: queues\[0\]\.name: Expected"):
        read_topology(path)
    (tmp_path / "shop.yaml").write_text("")
    with pytest.raises(ValueError, match="format must be one of toml, json, not 'yaml'"):
        read_topology(tmp_path / "shop.yaml")
