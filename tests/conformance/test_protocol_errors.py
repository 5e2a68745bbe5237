"""Every refusal that clients rely on: its code, its scope, its words and the method it blames."""

from collections.abc import Callable

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, publish_all, refusal_of, unique_name

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)
DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"


@pytest.mark.parametrize("confirms", [False, True])
def test_publish_to_a_missing_exchange(client: RawClient, confirms: bool) -> None:
    if confirms:
        client.call(1, "confirm.select")
    client.publish(1, "nowhere", "key", b"body")
    assert client.refusal() == Refusal("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", 60, 40)


def test_publish_to_an_internal_exchange(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout", internal=True)
    client.publish(1, exchange, "key")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '/'"
    assert client.refusal() == Refusal("channel", 403, text, 60, 40)


def test_publish_immediate(client: RawClient) -> None:
    client.publish(1, "", "key", immediate=True)
    assert client.refusal() == Refusal("connection", 540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


def test_publish_under_another_users_name(client: RawClient) -> None:
    client.publish(1, "", "key", properties={"user_id": "somebody"})
    text = "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'guest'"
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)


def test_publish_under_ones_own_name(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.publish(1, "", queue, properties={"user_id": "guest"})
    assert client.call(1, "basic.get", queue=queue).properties == {"user_id": "guest"}


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("soon", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("99999999999999", "{value_too_large,99999999999999}"),
    ],
)
def test_publish_with_a_bad_expiration(client: RawClient, expiration: str, reason: str) -> None:
    client.publish(1, "", "key", properties={"expiration": expiration})
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}"
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_publish_with_copies_that_are_not_a_list(client: RawClient, header: str) -> None:
    client.publish(1, "", "key", properties={"headers": {header: "key"}})
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",longstr}}'
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)


@pytest.mark.parametrize(
    ("name", "fields", "text", "ids"),
    [
        ("queue.declare", {"queue": "gone", "passive": True}, "no queue 'gone' in vhost '/'", (50, 10)),
        ("queue.declare", {"queue": "", "passive": True}, "no queue '' in vhost '/'", (50, 10)),
        ("queue.declare", {"queue": "amq.gone", "passive": True}, "no queue 'amq.gone' in vhost '/'", (50, 10)),
        ("exchange.declare", {"exchange": "gone", "passive": True}, "no exchange 'gone' in vhost '/'", (40, 10)),
        (
            "exchange.declare",
            {"exchange": "amq.gone", "passive": True},
            "no exchange 'amq.gone' in vhost '/'",
            (40, 10),
        ),
        ("queue.bind", {"queue": "gone", "exchange": "amq.direct"}, "no queue 'gone' in vhost '/'", (50, 20)),
        ("queue.bind", {"queue": "gone", "exchange": "lost"}, "no exchange 'lost' in vhost '/'", (50, 20)),
        ("exchange.bind", {"destination": "amq.fanout", "source": "lost"}, "no exchange 'lost' in vhost '/'", (40, 30)),
        ("exchange.bind", {"destination": "lost", "source": "amq.fanout"}, "no exchange 'lost' in vhost '/'", (40, 30)),
        ("exchange.bind", {"destination": "gone", "source": "lost"}, "no exchange 'lost' in vhost '/'", (40, 30)),
        ("queue.purge", {"queue": "gone"}, "no queue 'gone' in vhost '/'", (50, 30)),
        ("basic.consume", {"queue": "gone"}, "no queue 'gone' in vhost '/'", (60, 20)),
        ("basic.get", {"queue": "gone"}, "no queue 'gone' in vhost '/'", (60, 70)),
    ],
)
def test_what_is_missing(
    client: RawClient, name: str, fields: dict[str, Value], text: str, ids: tuple[int, int]
) -> None:
    assert refusal_of(client, name, **fields) == Refusal("channel", 404, f"NOT_FOUND - {text}", *ids)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("queue.delete", {"queue": "gone"}),
        ("queue.delete", {"queue": "gone", "if_unused": True, "if_empty": True}),
        ("exchange.delete", {"exchange": "gone"}),
        ("queue.unbind", {"queue": "gone", "exchange": "amq.direct", "routing_key": "key"}),
        ("queue.unbind", {"queue": "gone", "exchange": "lost"}),
        ("exchange.unbind", {"destination": "gone", "source": "lost"}),
        ("basic.cancel", {"consumer_tag": "gone"}),
    ],
)
def test_taking_away_what_is_missing_succeeds(client: RawClient, name: str, fields: dict[str, Value]) -> None:
    answer = client.call(1, name, fields)
    assert answer.fields in ({}, {"message_count": 0}, {"consumer_tag": "gone"})


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("basic.consume", (60, 20)),
        ("basic.get", (60, 70)),
        ("queue.bind", (50, 20)),
        ("queue.unbind", (50, 50)),
        ("queue.purge", (50, 30)),
        ("queue.delete", (50, 40)),
    ],
)
def test_the_last_declared_queue_when_there_is_none(client: RawClient, name: str, ids: tuple[int, int]) -> None:
    fields: dict[str, Value] = {"exchange": "amq.direct"} if "bind" in name else {}
    assert refusal_of(client, name, **fields) == Refusal(
        "channel", 404, "NOT_FOUND - no previously declared queue", *ids
    )


@pytest.mark.parametrize(
    ("name", "fields", "text", "ids"),
    [
        ("queue.declare", {"queue": "amq.mine"}, "queue name 'amq.mine' contains reserved prefix 'amq.*'", (50, 10)),
        (
            "exchange.declare",
            {"exchange": "amq.mine", "type": "direct"},
            "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
            (40, 10),
        ),
        (
            "exchange.delete",
            {"exchange": "amq.direct"},
            "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
            (40, 20),
        ),
        (
            "exchange.delete",
            {"exchange": "amq.gone"},
            "deletion of system exchange 'amq.gone' in vhost '/' not allowed",
            (40, 20),
        ),
    ],
)
def test_reserved_names(
    client: RawClient, name: str, fields: dict[str, Value], text: str, ids: tuple[int, int]
) -> None:
    assert refusal_of(client, name, **fields) == Refusal("channel", 403, f"ACCESS_REFUSED - {text}", *ids)


@pytest.mark.parametrize(
    ("name", "fields", "ids"),
    [
        ("exchange.declare", {"type": "direct", "durable": True}, (40, 10)),
        ("exchange.declare", {"type": "direct", "passive": True}, (40, 10)),
        ("exchange.delete", {}, (40, 20)),
        ("exchange.bind", {"source": "", "destination": "amq.direct"}, (40, 30)),
        ("exchange.bind", {"source": "amq.direct", "destination": ""}, (40, 30)),
        ("exchange.unbind", {"source": "", "destination": "amq.direct"}, (40, 40)),
    ],
)
def test_the_default_exchange_cannot_be_changed(
    client: RawClient, name: str, fields: dict[str, Value], ids: tuple[int, int]
) -> None:
    assert refusal_of(client, name, **fields) == Refusal("channel", 403, DEFAULT_EXCHANGE, *ids)


@pytest.mark.parametrize("routing_key", ["own name", "another key"])
@pytest.mark.parametrize(("name", "ids"), [("queue.bind", (50, 20)), ("queue.unbind", (50, 50))])
def test_default_bindings_can_be_neither_made_nor_removed(
    client: RawClient, topology: Topology, name: str, ids: tuple[int, int], routing_key: str
) -> None:
    queue = topology.queue(client)
    key = queue if routing_key == "own name" else routing_key
    assert refusal_of(client, name, queue=queue, exchange="", routing_key=key) == Refusal(
        "channel", 403, DEFAULT_EXCHANGE, *ids
    )


@pytest.mark.parametrize(("kind", "adjective"), [("nonsense", "unknown"), ("", "invalid")])
def test_an_unknown_exchange_type(client: RawClient, kind: str, adjective: str) -> None:
    refusal = refusal_of(client, "exchange.declare", exchange=unique_name("exchange"), type=kind)
    assert refusal == Refusal("connection", 503, f"COMMAND_INVALID - {adjective} exchange type '{kind}'", 40, 10)


@pytest.mark.parametrize(
    ("name", "fields", "ids"),
    [
        ("queue.declare", {"exclusive": True}, (50, 10)),
        ("queue.declare", {"passive": True}, (50, 10)),
        ("queue.declare", {}, (50, 10)),
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "key"}, (50, 20)),
        ("queue.purge", {}, (50, 30)),
        ("queue.delete", {}, (50, 40)),
        ("basic.consume", {}, (60, 20)),
        ("basic.get", {}, (60, 70)),
    ],
)
def test_another_connections_exclusive_queue(
    connect: Connect, client: RawClient, topology: Topology, name: str, fields: dict[str, Value], ids: tuple[int, int]
) -> None:
    queue = topology.queue(connect())
    assert refusal_of(client, name, queue=queue, **fields) == Refusal("channel", 405, LOCKED.format(queue), *ids)


Prepare = Callable[[RawClient, str], None]


def consume(client: RawClient, queue: str) -> None:
    client.call(1, "basic.consume", queue=queue)


def fill(client: RawClient, queue: str) -> None:
    publish_all(client, queue, [b"full"])


@pytest.mark.parametrize(
    ("condition", "prepare", "text"), [("if_unused", consume, "in use"), ("if_empty", fill, "not empty")]
)
def test_delete_a_queue_only_if(
    client: RawClient, topology: Topology, condition: str, prepare: Prepare, text: str
) -> None:
    queue = topology.queue(client)
    prepare(client, queue)
    assert refusal_of(client, "queue.delete", queue=queue, **{condition: True}) == Refusal(
        "channel", 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' {text}", 50, 40
    )


def test_delete_an_exchange_only_if_unused(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct")
    topology.bound_queue(client, exchange, "key")
    assert refusal_of(client, "exchange.delete", exchange=exchange, if_unused=True) == Refusal(
        "channel", 406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use", 40, 20
    )


@pytest.mark.parametrize("length", [10, 219, 220, 255])
def test_reply_texts_above_255_octets_are_cut(client: RawClient, length: int) -> None:
    refusal = refusal_of(client, "queue.declare", queue="q" * length, passive=True)
    whole = f"NOT_FOUND - no queue '{'q' * length}' in vhost '/'"
    assert refusal.text == (whole if len(whole) <= 255 else whole[:252] + "...")
