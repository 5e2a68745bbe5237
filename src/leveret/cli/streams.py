"""`leveret streams`"""

from __future__ import annotations

import click

from leveret.cli.asking import done, in_vhost
from leveret.cli.client import part
from leveret.cli.output import JSON, print_one, print_rows, safe
from leveret.cli.target import Target, targeted


@click.group()
def streams() -> None:
    """Streams: who reads and writes them, and how far they are."""


@streams.command("list")
@targeted
def list_streams(target: Target) -> None:
    """List streams."""
    rows = [row for row in target.client.get(f"/queues/{part(target.vhost)}") if row["type"] == "stream"]
    columns = ("vhost", "name", "messages", "segments", "first_offset", "committed_offset", "message_bytes")
    print_rows(rows, columns, target.form)


@streams.command()
@targeted
@click.argument("stream")
def offsets(target: Target, stream: str) -> None:
    """How far consumers (by offset) and producers (by publishing id) have come."""
    found = target.client.get(in_vhost(target, "stream", stream, "tracking"))
    if target.form == JSON:
        print_one(found, JSON)
        return
    rows = [
        {"kind": "consumer", "name": name, "at": at, "behind": found["lags"].get(name)}
        for name, at in found["offsets"].items()
    ]
    rows += [{"kind": "producer", "name": name, "at": at, "behind": None} for name, at in found["writers"].items()]
    print_rows(rows, ("kind", "name", "at", "behind"), target.form)


@streams.command("set-offset")
@targeted
@click.argument("stream")
@click.argument("consumer")
@click.argument("offset", type=int)
def set_offset(target: Target, stream: str, consumer: str, offset: int) -> None:
    """Let a consumer go on behind another offset."""
    target.client.put(in_vhost(target, "stream", stream, "tracking", consumer), {"offset": offset})
    done(f"{safe(consumer)} goes on behind {offset}")


@streams.command()
@targeted
def publishers(target: Target) -> None:
    """Who publishes by the stream protocol."""
    print_rows(
        target.client.get("/stream/publishers"),
        ("queue.vhost", "queue.name", "publisher_id", "reference", "published", "confirmed", "errored"),
        target.form,
    )


@streams.command()
@targeted
def consumers(target: Target) -> None:
    """Who consumes by the stream protocol."""
    print_rows(
        target.client.get("/stream/consumers"),
        ("queue.vhost", "queue.name", "subscription_id", "credits", "consumed", "offset", "offset_lag"),
        target.form,
    )
