"""Which rights each method of AMQP takes, in the order in which they are asked for: a table that tests are made of.

A method with a handler that is neither here nor among those that touch no resource fails tests/unit/session."""

from dataclasses import dataclass, field
from typing import Any

from tests.conformance.raw_client import RawClient

CONFIGURE, WRITE, READ = "configure", "write", "read"


@dataclass(frozen=True)
class Need:
    kind: str
    # queue or exchange
    resource: str
    # {n} is a name that no other case has; * at the end stands for what the broker adds.
    name: str


@dataclass(frozen=True)
class Case:
    """`before` are methods of an operator, who may do everything, that make what the case is about."""

    title: str
    method: str
    fields: dict[str, Any]
    needs: tuple[Need, ...] = ()
    before: tuple[tuple[str, dict[str, Any]], ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)


def named(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", name)
    if isinstance(value, dict):
        return {key: named(inner, name) for key, inner in value.items()}
    return value


def perform(client: RawClient, channel: int, case: Case, name: str) -> None:
    """Sends the method, and one more that is always answered, to see whether the channel lives."""
    fields = named(case.fields, name)
    if case.method == "basic.publish":
        client.publish(channel, fields["exchange"], fields["routing_key"], b"x", named(case.properties, name))
    else:
        client.send(channel, case.method, fields)


QUEUE = (("queue.declare", {"queue": "{n}"}),)
EXCHANGE = (("exchange.declare", {"exchange": "{n}", "type": "direct"}),)
BOTH = (*QUEUE, *EXCHANGE)
TWO = (*EXCHANGE, ("exchange.declare", {"exchange": "{n}.to", "type": "fanout"}))
ON_QUEUE = {kind: Need(kind, "queue", "{n}") for kind in (CONFIGURE, WRITE, READ)}
ON_EXCHANGE = {kind: Need(kind, "exchange", "{n}") for kind in (CONFIGURE, WRITE, READ)}
DEAD = {"x-dead-letter-exchange": "{n}.dlx"}
OTHERWISE = {"alternate-exchange": "{n}.ae"}

CASES = [
    Case("declare a queue", "queue.declare", {"queue": "{n}"}, (ON_QUEUE[CONFIGURE],)),
    Case("declare a queue again", "queue.declare", {"queue": "{n}"}, (ON_QUEUE[CONFIGURE],), QUEUE),
    Case("declare a queue without a name", "queue.declare", {"queue": ""}, (Need(CONFIGURE, "queue", "amq.gen-*"),)),
    Case("look at a queue", "queue.declare", {"queue": "{n}", "passive": True}, (), QUEUE),
    Case(
        "declare a queue with a dead-letter exchange",
        "queue.declare",
        {"queue": "{n}", "arguments": DEAD},
        (ON_QUEUE[CONFIGURE], ON_QUEUE[READ], Need(WRITE, "exchange", "{n}.dlx")),
    ),
    Case(
        "declare a queue again with its dead-letter exchange",
        "queue.declare",
        {"queue": "{n}", "arguments": DEAD},
        (ON_QUEUE[CONFIGURE],),
        (("queue.declare", {"queue": "{n}", "arguments": DEAD}),),
    ),
    Case("delete a queue", "queue.delete", {"queue": "{n}"}, (ON_QUEUE[CONFIGURE],), QUEUE),
    Case("delete a queue that is not there", "queue.delete", {"queue": "{n}"}, (ON_QUEUE[CONFIGURE],)),
    Case("purge a queue", "queue.purge", {"queue": "{n}"}, (ON_QUEUE[READ],), QUEUE),
    Case(
        "bind a queue",
        "queue.bind",
        {"queue": "{n}", "exchange": "{n}"},
        (ON_QUEUE[WRITE], ON_EXCHANGE[READ]),
        BOTH,
    ),
    Case(
        "unbind a queue",
        "queue.unbind",
        {"queue": "{n}", "exchange": "{n}"},
        (ON_QUEUE[WRITE], ON_EXCHANGE[READ]),
        (*BOTH, ("queue.bind", {"queue": "{n}", "exchange": "{n}"})),
    ),
    Case("declare an exchange", "exchange.declare", {"exchange": "{n}", "type": "topic"}, (ON_EXCHANGE[CONFIGURE],)),
    Case(
        "declare an exchange again",
        "exchange.declare",
        {"exchange": "{n}", "type": "direct"},
        (ON_EXCHANGE[CONFIGURE],),
        EXCHANGE,
    ),
    Case("look at an exchange", "exchange.declare", {"exchange": "{n}", "type": "", "passive": True}, (), EXCHANGE),
    Case(
        "declare an exchange with an alternate",
        "exchange.declare",
        {"exchange": "{n}", "type": "fanout", "arguments": OTHERWISE},
        (ON_EXCHANGE[CONFIGURE], ON_EXCHANGE[READ], Need(WRITE, "exchange", "{n}.ae")),
    ),
    Case("delete an exchange", "exchange.delete", {"exchange": "{n}"}, (ON_EXCHANGE[CONFIGURE],), EXCHANGE),
    Case(
        "bind an exchange",
        "exchange.bind",
        {"source": "{n}", "destination": "{n}.to"},
        (Need(WRITE, "exchange", "{n}.to"), ON_EXCHANGE[READ]),
        TWO,
    ),
    Case(
        "unbind an exchange",
        "exchange.unbind",
        {"source": "{n}", "destination": "{n}.to"},
        (Need(WRITE, "exchange", "{n}.to"), ON_EXCHANGE[READ]),
        (*TWO, ("exchange.bind", {"source": "{n}", "destination": "{n}.to"})),
    ),
    Case("publish", "basic.publish", {"exchange": "{n}", "routing_key": "k"}, (ON_EXCHANGE[WRITE],), EXCHANGE),
    Case(
        "publish to the default exchange",
        "basic.publish",
        {"exchange": "", "routing_key": "{n}"},
        (Need(WRITE, "exchange", "amq.default"),),
        QUEUE,
    ),
    Case("consume", "basic.consume", {"queue": "{n}"}, (ON_QUEUE[READ],), QUEUE),
    Case("consume replies", "basic.consume", {"queue": "amq.rabbitmq.reply-to", "no_ack": True}),
    Case("get", "basic.get", {"queue": "{n}"}, (ON_QUEUE[READ],), QUEUE),
]
# Methods that touch no resource of their own, or one that was asked for when it was begun.
WITHOUT_RIGHTS = {
    "channel.open",
    "channel.close",
    "channel.close-ok",
    "channel.flow",
    "basic.qos",
    "basic.cancel",
    "basic.ack",
    "basic.nack",
    "basic.reject",
    "basic.recover",
    "basic.recover-async",
    "confirm.select",
    "tx.select",
    "tx.commit",
    "tx.rollback",
    "access.request",
}
