"""What is in the broker right now: its streams and queues by name, and those to which dead letters go.

Asks the management API and reads no message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from leveret.spark.broker_client import Broker
from leveret.spark.management import get
from leveret.spark.options import ANY, READ, SPECS, read_options

__all__ = ["STREAM", "LiveQueue", "connection_options", "dead_letter_places", "list_live"]

STREAM = "stream"
_OF_CONNECTION = {spec.name.lower() for spec in SPECS if spec.side == ANY}


class LiveQueue(NamedTuple):
    name: str
    kind: str
    messages: int
    # Whether it is where dead letters go.
    is_graveyard: bool


def connection_options(source: Mapping[str, str]) -> dict[str, str]:
    """Of a connector's options those that say where the broker is and who logs in."""
    return {name: value for name, value in source.items() if name.lower() in _OF_CONNECTION}


def list_live(source: Mapping[str, str]) -> list[LiveQueue]:
    """All streams and queues of the virtual host, in order. Raises SourceFailed if the API cannot be asked."""
    broker = Broker(read_options(connection_options(source), READ), "leveret-sql")
    vhost = quote(broker.vhost, safe="")
    doing = "looking for streams and queues"
    columns = "name,type,messages,arguments,effective_policy_definition"
    queues = get(broker, f"/api/queues/{vhost}?columns={columns}", doing)
    graveyards = dead_letter_places(queues, get(broker, f"/api/bindings/{vhost}", doing))
    found = [
        LiveQueue(queue["name"], queue.get("type", "classic"), queue.get("messages") or 0, queue["name"] in graveyards)
        for queue in queues
    ]
    return sorted(found)


def dead_letter_places(queues: Iterable[Mapping[str, Any]], bindings: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of the streams and queues to which dead letters go. Where an exchange leads to a stream, its queues are
    left out: a stream beside a queue has the same letters, and they are not to count twice."""
    queues, bindings = list(queues), list(bindings)
    kinds = {queue["name"]: queue.get("type") for queue in queues}
    places: set[str] = set()
    for queue in queues:
        policy, arguments = queue.get("effective_policy_definition") or {}, queue.get("arguments") or {}
        exchange = arguments.get("x-dead-letter-exchange", policy.get("dead-letter-exchange"))
        key = arguments.get("x-dead-letter-routing-key", policy.get("dead-letter-routing-key"))
        if exchange is None:
            continue
        reached = ({key} if key else {queue["name"]}) if exchange == "" else _reached(exchange, bindings)
        streams = {name for name in reached if kinds.get(name) == STREAM}
        places |= streams or reached
    return places & kinds.keys()


def _reached(exchange: str, bindings: list[Mapping[str, Any]]) -> set[str]:
    """Queues behind an exchange, by any routing key, through other exchanges as well."""
    seen, ahead, found = {exchange}, [exchange], set()
    while ahead:
        source = ahead.pop()
        for binding in bindings:
            if binding["source"] != source:
                continue
            if binding["destination_type"] == "queue":
                found.add(binding["destination"])
            elif binding["destination"] not in seen:
                seen.add(binding["destination"])
                ahead.append(binding["destination"])
    return found
