"""`leveret publish`, `leveret get`, and how messages are printed."""

from __future__ import annotations

import base64
import json
from typing import Any

import click

from leveret.cli.asking import arguments_of, done, in_vhost
from leveret.cli.exit_codes import Failed
from leveret.cli.output import CSV, JSON, print_rows, safe
from leveret.cli.target import Target, targeted

COLUMNS = ("exchange", "routing_key", "redelivered", "payload_bytes", "payload_encoding", "payload", "properties")


def print_messages(messages: list[dict[str, Any]], form: str) -> None:
    if form in (JSON, CSV):
        print_rows(messages, COLUMNS, form)
        return
    for message in messages:
        again = ", redelivered" if message.get("redelivered") else ""
        place = f"{message.get('exchange') or '(default exchange)'} / {message.get('routing_key', '')}"
        click.secho(f"{safe(place)}  {message.get('payload_bytes', 0)} bytes{again}", bold=True)
        properties = dict(message.get("properties") or {})
        headers = properties.pop("headers", {})
        for name, value in [*properties.items(), *headers.items()]:
            click.echo(f"  {safe(name)}: {safe(value if isinstance(value, str) else json.dumps(value))}")
        click.echo(f"  {safe(str(message.get('payload', '')))}")


@click.command()
@targeted
@click.argument("exchange")
@click.argument("routing_key")
@click.argument("payload", required=False)
@click.option(
    "--file", "-f", "source", type=click.File("rb"), help="Read the payload from this file, - for standard input."
)
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
@click.option("--property", "-P", "properties", multiple=True, metavar="NAME=VALUE", help="Such as priority=5.")
@click.option("--transient", is_flag=True, help="Publish a transient message, which does not survive a restart.")
def publish(
    target: Target,
    exchange: str,
    routing_key: str,
    payload: str | None,
    source: Any,
    headers: tuple[str, ...],
    properties: tuple[str, ...],
    transient: bool,
) -> None:
    """Publish one message; "" or amq.default is the default exchange, whose keys are names of queues."""
    if (payload is None) == (source is None):
        raise click.UsageError("give a PAYLOAD or a --file")
    octets: bytes = source.read() if source is not None else (payload or "").encode("utf-8", "surrogateescape")
    given: dict[str, Any] = {"delivery_mode": 1 if transient else 2}
    for name, value in arguments_of(properties).items():
        # What looks like a number may be meant as text: the API knows which properties are.
        given[name] = value if name in ("delivery_mode", "priority", "timestamp") else _as_text(value)
    if headers:
        given["headers"] = arguments_of(headers)
    body = {
        "properties": given,
        "routing_key": routing_key,
        "payload": base64.b64encode(octets).decode(),
        "payload_encoding": "base64",
    }
    answer = target.client.post(in_vhost(target, "exchanges", exchange or "amq.default", "publish"), body)
    if not answer.get("routed"):
        raise Failed("the message was routed to no queue")
    done("published")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@click.command()
@targeted
@click.argument("queue")
@click.option("--count", "-n", default=1, show_default=True, help="Number of messages at most.")
@click.option(
    "--ack/--requeue",
    default=False,
    help="Acknowledge the messages, or requeue them (marked as redelivered).  [default: requeue]",
)
def get(target: Target, queue: str, count: int, ack: bool) -> None:
    """Get messages from a queue. To only look, see `leveret queues peek`."""
    body = {
        "count": count,
        "ackmode": "ack_requeue_false" if ack else "ack_requeue_true",
        "encoding": "auto",
    }
    found = target.client.post(in_vhost(target, "queues", queue, "get"), body)
    if not found:
        done("the queue is empty")
    print_messages(found, target.form)
