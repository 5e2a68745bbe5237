"""`leveret queues`"""

from __future__ import annotations

import json

import click

from leveret.cli.asking import (
    all_option,
    argument_option,
    arguments_of,
    columns_option,
    confirm,
    done,
    in_vhost,
    list_command,
    until_interrupted,
    yes_option,
)
from leveret.cli.client import part
from leveret.cli.messages import print_messages
from leveret.cli.output import JSON, print_one, print_rows, safe
from leveret.cli.queue_move import move
from leveret.cli.target import Target, targeted

COLUMNS = ("vhost", "name", "type", "messages", "messages_ready", "messages_unacknowledged", "consumers", "state")
SHOWN = (
    "name", "vhost", "type", "state", "durable", "auto_delete", "exclusive", "arguments", "policy", "operator_policy",
    "effective_policy_definition", "messages", "messages_ready", "messages_unacknowledged", "message_bytes",
    "consumers",
    "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate", "message_stats.ack_details.rate",
    "oldest_message_age_ms", "idle_since",
)  # fmt: skip


@click.group()
def queues() -> None:
    """List, make, empty, move and watch queues."""


queues.add_command(move)


@queues.command("list")
@targeted
@all_option
@columns_option
@click.option("--sort", metavar="COLUMN", help="Such as messages.")
@click.option("--reverse", is_flag=True, help="Largest first.")
@click.option("--name", metavar="PATTERN", help="Only names that this regular expression matches.")
def list_queues(
    target: Target, everywhere: bool, columns: str | None, sort: str | None, reverse: bool, name: str | None
) -> None:
    """List queues."""
    path = "/queues" if everywhere else f"/queues/{part(target.vhost)}"
    list_command(
        target, path, COLUMNS, columns, sort=sort, sort_reverse=reverse or None, name=name, use_regex=name and True
    )


@queues.command()
@targeted
@click.argument("queue")
def show(target: Target, queue: str) -> None:
    """Everything about one queue."""
    print_one(target.client.get(in_vhost(target, "queues", queue)), target.form, SHOWN)


@queues.command()
@targeted
@click.argument("queue")
@click.option("--type", "kind", help="classic, quorum or stream.")
@click.option("--transient", is_flag=True, help="Does not survive a restart.")
@click.option("--auto-delete", is_flag=True, help="Deleted with its last consumer.")
@argument_option
def declare(
    target: Target, queue: str, kind: str | None, transient: bool, auto_delete: bool, arguments: tuple[str, ...]
) -> None:
    """Make a queue, unless it is there."""
    given = arguments_of(arguments)
    if kind is not None:
        given["x-queue-type"] = kind
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": given}
    made = target.client.put(in_vhost(target, "queues", queue), body)
    done(f"made {safe(queue)}" if made == 201 else f"{safe(queue)} is there already")


@queues.command()
@targeted
@click.argument("queue")
@click.option("--if-empty", is_flag=True, help="Only if it is empty.")
@click.option("--if-unused", is_flag=True, help="Only if it has no consumers.")
@yes_option
def delete(target: Target, queue: str, if_empty: bool, if_unused: bool, yes: bool) -> None:
    """Delete a queue with its messages."""
    confirm(f"Delete queue {safe(queue)} and all its messages?", yes or if_empty)
    conditions = {"if-empty": if_empty or None, "if-unused": if_unused or None}
    target.client.delete(in_vhost(target, "queues", queue), conditions)
    done(f"deleted {safe(queue)}")


@queues.command()
@targeted
@click.argument("queue")
@yes_option
def purge(target: Target, queue: str, yes: bool) -> None:
    """Delete all messages that wait in a queue."""
    confirm(f"Delete all messages that wait in {safe(queue)}?", yes)
    target.client.delete(in_vhost(target, "queues", queue, "contents"))
    done(f"purged {safe(queue)}")


@queues.command()
@targeted
@click.argument("queue")
@click.option("--count", "-n", default=10, show_default=True, help="Number of messages.")
@click.option("--offset", default=0, show_default=True, help="Number of messages to skip first.")
@click.option("--after", type=int, help="Instead of --offset: start after this position.")
@click.option("--state", type=click.Choice(["ready", "unacked"]), default="ready", show_default=True)
def peek(target: Target, queue: str, count: int, offset: int, after: int | None, state: str) -> None:
    """Look at messages without taking them."""
    place = {"offset": offset} if after is None else {"after": after}
    found = target.client.get(in_vhost(target, "queues", queue, "peek"), count=count, state=state, **place)
    print_messages(found, target.form)


@queues.command()
@targeted
@click.argument("queue")
@click.option("--count", "-n", type=int, help="Stop after this many messages.")
@click.option("--rate", type=float, help="Show at most this many messages per second.")
@until_interrupted()
def tail(target: Target, queue: str, count: int | None, rate: float | None) -> None:
    """Watch what arrives in a queue, without taking it."""
    for kind, event in target.client.events("/tap", vhost=target.vhost, queue=queue, count=count, rate=rate):
        if kind != "message":
            continue
        if target.form == JSON:
            click.echo(json.dumps(event, ensure_ascii=False))
        else:
            print_messages([event], target.form)


@queues.command()
@targeted
@click.argument("queue")
def pause(target: Target, queue: str) -> None:
    """Hand nothing out to consumers until it is resumed."""
    target.client.put(in_vhost(target, "queues", queue, "pause"))
    done(f"paused {safe(queue)}")


@queues.command()
@targeted
@click.argument("queue")
def resume(target: Target, queue: str) -> None:
    """Hand messages out again."""
    target.client.put(in_vhost(target, "queues", queue, "resume"))
    done(f"resumed {safe(queue)}")


@queues.command()
@targeted
@click.argument("queue")
def unacked(target: Target, queue: str) -> None:
    """Who holds messages that are not acknowledged."""
    found = target.client.get(in_vhost(target, "queues", queue, "unacked"))
    print_rows(
        found, ("consumer_tag", "channel", "delivery_tag", "user", "since", "payload_bytes", "routing_key"), target.form
    )
