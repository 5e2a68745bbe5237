"""What requests that make no sense are sent to: a broker with one of everything, known names, decent bodies to spoil.

The neighbour has a virtual host and a user of his own, which no request here names."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pika

from leveret.testing import Broker
from tests.http_client import Api, name

ADMIN, MANAGER = "fuzzer", "fuzzer-manager"
PASSWORD = "fuzz"
QUIET = "quiet"

# What stands in paths, by the name of the parameter: things that are there, and some that have other names everywhere.
ODD_NAMES = [
    "",
    "nope",
    "amq.default",
    "..",
    "../../etc/passwd",
    "a\r\nX: y",
    "a\x00b",
    "é" * 130,
    "x" * 300,
    "%2F",
    "\udcff\udc80",
    "000000001" + "9" * 4500,
    "0",
]
KNOWN: dict[str, list[str]] = {
    "vhost": ["/", "other"],
    "queue": ["q", "s", "dead"],
    "exchange": ["x", "t", "h", "amq.default", "amq.topic"],
    "destination": ["x", "t"],
    "user": ["guest", "somebody"],
    "stream": ["s"],
    "consumer": ["c"],
    "component": ["shovel", "federation-upstream", "policy", "operator_policy", "vhost-limits"],
    "name": ["p", "max-connections", "max-queues", "max-channels", "limits", "q", "cluster_name"],
    "props": ["~", "key"],
    "port": ["1", "5672", "x"],
    "protocol": ["amqp", "http", "stream"],
    "within": ["1"],
    "unit": ["weeks"],
    "node": ["leveret@localhost"],
    "task": ["1"],
    "state": ["running"],
}
SECTIONS = {
    "vhosts": [{"name": "other"}],
    "users": [{"name": "somebody", "password_hash": "", "tags": ["management"]}],
    "permissions": [{"user": "somebody", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "somebody", "vhost": "/", "exchange": "t", "write": ".*", "read": ".*"}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "^z", "definition": {"max-length": 5}, "apply-to": "queues"}],
    "parameters": [
        {"vhost": "/", "component": "shovel", "name": "p", "value": {"src-uri": "amqp://", "src-queue": "q"}}
    ],
    "global_parameters": [{"name": "p", "value": {"a": [1, None]}}],
    "queues": [{"vhost": "/", "name": "new", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 9}}],
    "exchanges": [
        {"vhost": "/", "name": "new", "type": "topic", "durable": True, "auto_delete": False, "arguments": {}}
    ],
    "bindings": [
        {
            "vhost": "/",
            "source": "x",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "k",
            "arguments": {},
        }
    ],
}
DECENT: dict[str, Any] = {
    "PUT /api/queues/{vhost}/{queue}": {
        "durable": True,
        "auto_delete": False,
        "arguments": {
            "x-message-ttl": 1000,
            "x-max-length": 10,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "x",
            "x-dead-letter-routing-key": "dead",
            "x-max-priority": 5,
            "x-queue-type": "classic",
            "x-expires": 60000,
        },
        "node": "leveret@localhost",
    },
    "PUT /api/exchanges/{vhost}/{exchange}": {
        "type": "topic",
        "durable": True,
        "internal": False,
        "arguments": {"alternate-exchange": "x", "hash-header": "h", "x-delayed-type": "topic"},
    },
    "POST /api/bindings/{vhost}/e/{exchange}/q/{queue}": {
        "routing_key": "a.*.#",
        "arguments": {"x-match": "all", "h": 1, "list": [1, {"a": None}]},
    },
    "POST /api/exchanges/{vhost}/{exchange}/publish": {
        "routing_key": "q",
        "properties": {
            "headers": {
                "CC": ["s"],
                "x-delay": 5,
                "x-death": [{"queue": "q", "count": 1}],
                "x-deduplication-header": "d",
            },
            "delivery_mode": 2,
            "priority": 3,
            "expiration": "1000",
            "timestamp": 5,
            "user_id": "fuzzer",
            "reply_to": "amq.rabbitmq.reply-to",
            "content_type": "text/plain",
        },
        "payload": "aGVsbG8=",
        "payload_encoding": "base64",
        "confirm": True,
    },
    "POST /api/queues/{vhost}/{queue}/get": {
        "ackmode": "ack_requeue_true",
        "count": 2,
        "encoding": "auto",
        "truncate": 10,
    },
    "POST /api/queues/{vhost}/{queue}/ack": {"delivery_ids": ["x"]},
    "POST /api/queues/{vhost}/{queue}/nack": {"delivery_tag": 0, "multiple": True, "requeue": False},
    "POST /api/queues/{vhost}/{queue}/reprocess": {
        "mode": "target",
        "exchange": "x",
        "routing_key": "k",
        "limit": 5,
        "rate": 10.5,
        "dry_run": True,
        "on_unroutable": "stop",
        "wait": 0,
        "filter": {"queue": "q", "queue_pattern": "^q", "headers": {"a": 1}, "age_s_min": 1, "body_contains": "h"},
    },
    "POST /api/simulate-route": {"vhost": "/", "exchange": "t", "routing_key": "a.b", "headers": {"h": 1, "b": [1]}},
    "PUT /api/users/{user}": {
        "password_hash": "BVcdzUd0OkgnKVrDBDMqWGKuKrvZzh9nsGpp0xPQkGw=",
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "management, x",
        "limits": {"max-connections": 5},
    },
    "POST /api/users/bulk-delete": {"users": ["somebody"]},
    "POST /api/auth/hash_password": {"password": "p"},
    "PUT /api/permissions/{vhost}/{user}": {"configure": ".*", "write": "^q", "read": "[a-z]+"},
    "PUT /api/topic-permissions/{vhost}/{user}": {"exchange": "t", "write": "^{username}", "read": ".*"},
    "PUT /api/policies/{vhost}/{name}": {
        "pattern": "^z",
        "definition": {
            "max-length": 5,
            "dead-letter-exchange": "x",
            "message-ttl": 1,
            "federation-upstream-set": "all",
        },
        "priority": 1,
        "apply-to": "queues",
    },
    "PUT /api/parameters/{component}/{vhost}/{name}": {
        "value": {"src-uri": "amqp://user:pass@host/%2f", "src-queue": "q", "dest-uri": ["amqp://"], "dest-queue": "s"}
    },
    "PUT /api/global-parameters/{name}": {"value": {"a": [1]}},
    "PUT /api/vhost-limits/{vhost}/{name}": {"value": 5000},
    "PUT /api/user-limits/{user}/{name}": {"value": 5000},
    "PUT /api/vhosts/{vhost}": {"description": "d", "tags": "a,b", "default_queue_type": "classic", "tracing": False},
    "PUT /api/stream/super-streams/{vhost}/{name}": {"partitions": 2, "arguments": {"x-max-age": "1h"}},
    "PUT /api/cluster-name": {"name": "c"},
    "PUT /api/stream/{vhost}/{stream}/tracking/{consumer}": {"offset": 5},
    "POST /api/definitions": SECTIONS,
    "POST /api/definitions/{vhost}": SECTIONS,
    "POST /api/definitions/diff": SECTIONS,
}
ALIKE = {
    "POST /api/bindings/{vhost}/e/{exchange}/e/{destination}": "POST /api/bindings/{vhost}/e/{exchange}/q/{queue}",
    "PUT /api/operator-policies/{vhost}/{name}": "PUT /api/policies/{vhost}/{name}",
}
ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**63, 2**64, -(2**70), "", " ", "x", "5", "-5", "true", "\x00",
    "\ud800", "é" * 200, "x" * 300, "(a+)+$", "(?=.*(?=.*a))",
    "a.{0,40}b.{0,40}c|x", "[", ".*.*.*.*x", "\r\nX-Evil: 1", "../..", "9" * 40, "1e5", "NaN", [],
    [[]], {}, {"": {}}, {"x" * 300: 1}, [None], {"a": {"b": {"c": [1]}}}, "amq.", "classic", "stream", "quorum",
    "x-delayed-message", "#.#.#.#.#",
]  # fmt: skip


def furnish(api: Api) -> None:
    """Makes what is missing."""
    api.post("/definitions?conflicts=keep", SECTIONS)
    for vhost in ("%2F", "other"):
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        api.put(f"/vhosts/{vhost}", {})
        for user in (ADMIN, MANAGER):
            api.put(f"/permissions/{vhost}/{user}", everything)
        for limit in ("max-connections", "max-queues"):
            api.delete(f"/vhost-limits/{vhost}/{limit}")
        for queue, arguments in (("q", {}), ("s", {"x-queue-type": "stream"}), ("dead", {})):
            api.put(f"/queues/{vhost}/{queue}", {"durable": True, "arguments": arguments})
        for exchange, kind in (("x", "direct"), ("t", "topic"), ("h", "headers")):
            api.put(f"/exchanges/{vhost}/{exchange}", {"type": kind, "durable": True})
    for key, payload in (("q", "one"), ("q", "é"), ("dead", "gone")):
        message = {"routing_key": key, "properties": {}, "payload": payload, "payload_encoding": "string"}
        api.post("/exchanges/%2F/amq.default/publish", message)


def clear(api: Api) -> None:
    for vhost in [one["name"] for one in api.get("/vhosts").body]:
        if vhost not in ("/", QUIET):
            api.delete(f"/vhosts/{name(vhost)}/deletion/protection")
            api.delete(f"/vhosts/{name(vhost)}")
    for queue in api.get("/queues/%2F?columns=name").body or []:
        api.delete(f"/queues/%2F/{name(queue['name'])}")


class Ground:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        first = Api(broker)
        first.put(f"/vhosts/{QUIET}")
        for user, tags in ((ADMIN, "administrator"), (MANAGER, "management"), ("neighbour", "")):
            first.put(f"/users/{user}", {"password": PASSWORD, "tags": tags})
        first.put(f"/permissions/{QUIET}/neighbour", {"configure": ".*", "write": ".*", "read": ".*"})
        self.api = Api(broker, ADMIN, PASSWORD)
        furnish(self.api)
        credentials = pika.PlainCredentials("neighbour", PASSWORD)
        self._connection = pika.BlockingConnection(
            pika.ConnectionParameters(broker.host, broker.port, QUIET, credentials)
        )
        self._channel = self._connection.channel()
        self._channel.queue_declare("here")

    def check_neighbour(self) -> None:
        self._channel.basic_publish("", "here", b"still")
        for _ in range(100):
            method, _, body = self._channel.basic_get("here", auto_ack=True)
            if method is not None:
                break
        assert body == b"still"

    def close(self) -> None:
        self._connection.close()


def spoiled(body: Any, dice: random.Random) -> Any:
    """A decent body with a few values changed, left out or added."""
    spoilt = copy.deepcopy(body)
    for _ in range(dice.choice([0, 1, 1, 1, 2, 3])):
        places = list(_places(spoilt))
        if not places:
            return dice.choice(ODD_VALUES)
        holder, key = dice.choice(places)
        what = dice.random()
        if what < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif what < 0.25 and isinstance(holder, dict):
            holder[dice.choice(["x", "", "name", "x-max-length", "é" * 200])] = dice.choice(ODD_VALUES)
        else:
            holder[key] = copy.deepcopy(dice.choice(ODD_VALUES))
    return spoilt


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(inner)
