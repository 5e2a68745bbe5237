"""`leveret shovels` and `leveret federation`: links to other brokers."""

from __future__ import annotations

from pathlib import Path

import click

from leveret.cli.asking import all_option, confirm, done, first_line, json_of, yes_option
from leveret.cli.client import part
from leveret.cli.output import print_one, print_rows, safe
from leveret.cli.target import Target, targeted

COLUMNS = (
    "vhost", "name", "type", "state", "src_uri", "src_queue", "src_exchange", "dest_uri", "dest_queue",
    "dest_exchange", "leveret.messages_forwarded", "leveret.messages_waiting", "reason",
)  # fmt: skip
LINK_COLUMNS = (
    "vhost", "type", "exchange", "queue", "upstream", "uri", "status", "leveret.messages_forwarded", "error", "id",
)  # fmt: skip


@click.group()
def shovels() -> None:
    """Shovels: messages from a queue here or elsewhere to another broker."""


@shovels.command("list")
@targeted
@all_option
def list_shovels(target: Target, everywhere: bool) -> None:
    """List shovels and the state they are in."""
    path = "/shovels" if everywhere else f"/shovels/{part(target.vhost)}"
    print_rows(target.client.get(path), COLUMNS, target.form)


def _path(target: Target, name: str) -> str:
    return f"/shovels/vhost/{part(target.vhost)}/{part(name)}"


@shovels.command()
@targeted
@click.argument("name")
def show(target: Target, name: str) -> None:
    """Everything about one shovel."""
    print_one(target.client.get(_path(target, name)), target.form)


@shovels.command("set")
@targeted
@click.argument("name")
@click.argument("value", required=False)
@click.option(
    "--file", "file", type=click.Path(path_type=str), help="Read the value from this file, - for standard input."
)
def set_shovel(target: Target, name: str, value: str | None, file: str | None) -> None:
    """Make or change a shovel. VALUE is JSON, as RabbitMQ's parameter has it; with passwords better from a file:

    leveret shovels set s '{"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://there", "dest-queue": "b"}'
    """
    if (value is None) == (file is None):
        raise click.UsageError("give a VALUE or a --file")
    text = value if file is None else click.open_file(file, encoding="utf-8").read()
    body = {"component": "shovel", "name": name, "value": json_of(text or "", "the value")}
    target.client.put(f"/parameters/shovel/{part(target.vhost)}/{part(name)}", body)
    done(f"set {safe(name)}")


@shovels.command()
@targeted
@click.argument("name")
@yes_option
def delete(target: Target, name: str, yes: bool) -> None:
    """Delete a shovel. Messages stay where they are."""
    confirm(f"Delete shovel {safe(name)}?", yes)
    target.client.delete(_path(target, name))
    done(f"deleted {safe(name)}")


@shovels.command()
@targeted
@click.argument("name")
def restart(target: Target, name: str) -> None:
    """Connect both sides anew."""
    target.client.delete(f"{_path(target, name)}/restart")
    done(f"restarted {safe(name)}")


@shovels.command()
@targeted
@click.argument("name")
def pause(target: Target, name: str) -> None:
    """Move nothing until it is resumed."""
    target.client.put(f"{_path(target, name)}/pause")
    done(f"paused {safe(name)}")


@shovels.command()
@targeted
@click.argument("name")
def resume(target: Target, name: str) -> None:
    """Go on moving messages."""
    target.client.delete(f"{_path(target, name)}/pause")
    done(f"resumed {safe(name)}")


# ---- federation


@click.group()
def federation() -> None:
    """Federation: exchanges and queues here that receive from other brokers."""


@federation.command()
@targeted
@all_option
def links(target: Target, everywhere: bool) -> None:
    """List links and the state they are in."""
    path = "/federation-links" if everywhere else f"/federation-links/{part(target.vhost)}"
    print_rows(target.client.get(path), LINK_COLUMNS, target.form)


@federation.command("restart")
@targeted
@click.argument("link")
def restart_link(target: Target, link: str) -> None:
    """Connect a link anew; its id stands in `leveret federation links`."""
    target.client.delete(f"/federation-links/vhost/{part(target.vhost)}/{part(link)}/local/restart")
    done(f"restarted {safe(link)}")


@federation.command("set-upstream")
@targeted
@click.argument("name")
@click.argument("uri", required=False)
@click.option("--uri-file", type=click.Path(path_type=str), help="The URI is the first line of this file.")
@click.option("--settings", metavar="JSON", default="{}", help='Such as {"max-hops": 2}.')
def set_upstream(target: Target, name: str, uri: str | None, uri_file: str | None, settings: str) -> None:
    """Name a broker that exchanges and queues can be told to receive from, by a policy."""
    if (uri is None) == (uri_file is None):
        raise click.UsageError("give a URI or a --uri-file")
    chosen = uri if uri_file is None else first_line(Path(uri_file))
    value = {**json_of(settings, "--settings"), "uri": chosen}
    path = f"/parameters/federation-upstream/{part(target.vhost)}/{part(name)}"
    target.client.put(path, {"component": "federation-upstream", "name": name, "value": value})
    done(f"set {safe(name)}")
