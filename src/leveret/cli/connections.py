"""`leveret connections`, `leveret channels`, `leveret consumers`"""

from __future__ import annotations

import click

from leveret.cli.asking import all_option, columns_option, confirm, done, list_command, yes_option
from leveret.cli.client import part
from leveret.cli.output import print_one, safe
from leveret.cli.target import Target, targeted

CONNECTION_COLUMNS = ("name", "user", "vhost", "protocol", "state", "channels", "client_properties.connection_name")
CHANNEL_COLUMNS = (
    "name", "user", "vhost", "state", "consumer_count", "prefetch_count", "messages_unacknowledged",
    "messages_unconfirmed",
)  # fmt: skip
CONSUMER_COLUMNS = (
    "queue.vhost",
    "queue.name",
    "consumer_tag",
    "channel_details.name",
    "ack_required",
    "prefetch_count",
    "active",
)


@click.group()
def connections() -> None:
    """List and close connections."""


@connections.command("list")
@targeted
@columns_option
def list_connections(target: Target, columns: str | None) -> None:
    """List connections."""
    list_command(target, "/connections", CONNECTION_COLUMNS, columns)


@connections.command()
@targeted
@click.argument("name")
def show(target: Target, name: str) -> None:
    """Everything about one connection."""
    print_one(target.client.get(f"/connections/{part(name)}"), target.form)


@connections.command()
@targeted
@click.argument("name", required=False)
@click.option("--of-user", metavar="USER", help="All connections of this user.")
@click.option("--reason", help="Reason that is sent to the client.")
@yes_option
def close(target: Target, name: str | None, of_user: str | None, reason: str | None, yes: bool) -> None:
    """Close a connection, or all of a user."""
    if (name is None) == (of_user is None):
        raise click.UsageError("give a NAME or --of-user")
    what = f"connection {name}" if name is not None else f"all connections of {of_user}"
    confirm(f"Close {safe(what)}?", yes)
    path = f"/connections/{part(name)}" if name is not None else f"/connections/username/{part(of_user or '')}"
    target.client.delete(path, headers={"X-Reason": reason} if reason else None)
    done(f"closed {safe(what)}")


@click.group()
def channels() -> None:
    """List channels."""


@channels.command("list")
@targeted
@columns_option
def list_channels(target: Target, columns: str | None) -> None:
    """List channels."""
    list_command(target, "/channels", CHANNEL_COLUMNS, columns)


@click.group()
def consumers() -> None:
    """List consumers."""


@consumers.command("list")
@targeted
@all_option
@columns_option
def list_consumers(target: Target, everywhere: bool, columns: str | None) -> None:
    """List consumers."""
    path = "/consumers" if everywhere else f"/consumers/{part(target.vhost)}"
    list_command(target, path, CONSUMER_COLUMNS, columns, paged=False)
