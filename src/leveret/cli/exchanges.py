"""`leveret exchanges`, `leveret bindings`"""

from __future__ import annotations

from typing import Any

import click

from leveret.cli.asking import (
    all_option,
    argument_option,
    arguments_of,
    columns_option,
    confirm,
    done,
    in_vhost,
    json_of,
    list_command,
    yes_option,
)
from leveret.cli.client import part
from leveret.cli.exit_codes import Failed
from leveret.cli.output import CSV, JSON, cell, print_one, print_rows, safe
from leveret.cli.target import Target, targeted

EXCHANGE_COLUMNS = ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments", "policy")
BINDING_COLUMNS = ("vhost", "source", "destination_type", "destination", "routing_key", "arguments")


@click.group()
def exchanges() -> None:
    """List, make and delete exchanges."""


@exchanges.command("list")
@targeted
@all_option
@columns_option
def list_exchanges(target: Target, everywhere: bool, columns: str | None) -> None:
    """List exchanges."""
    path = "/exchanges" if everywhere else f"/exchanges/{part(target.vhost)}"
    list_command(target, path, EXCHANGE_COLUMNS, columns)


@exchanges.command()
@targeted
@click.argument("exchange")
def show(target: Target, exchange: str) -> None:
    """Everything about one exchange."""
    print_one(target.client.get(in_vhost(target, "exchanges", exchange or "amq.default")), target.form)


@exchanges.command()
@targeted
@click.argument("exchange")
@click.option("--type", "kind", default="direct", show_default=True, help="direct, fanout, topic, headers, x-...")
@click.option("--transient", is_flag=True, help="Does not survive a restart.")
@click.option("--auto-delete", is_flag=True, help="Deleted with its last binding.")
@click.option("--internal", is_flag=True, help="Accepts messages from other exchanges only.")
@argument_option
def declare(
    target: Target,
    exchange: str,
    kind: str,
    transient: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
) -> None:
    """Make an exchange, unless it is there."""
    body = {
        "type": kind,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": arguments_of(arguments),
    }
    made = target.client.put(in_vhost(target, "exchanges", exchange), body)
    done(f"made {safe(exchange)}" if made == 201 else f"{safe(exchange)} is there already")


@exchanges.command()
@targeted
@click.argument("exchange")
@click.option("--if-unused", is_flag=True, help="Only if nothing is bound to it.")
@yes_option
def delete(target: Target, exchange: str, if_unused: bool, yes: bool) -> None:
    """Delete an exchange."""
    confirm(f"Delete exchange {safe(exchange)}?", yes or if_unused)
    target.client.delete(in_vhost(target, "exchanges", exchange), {"if-unused": if_unused or None})
    done(f"deleted {safe(exchange)}")


@exchanges.command()
@targeted
@click.argument("exchange")
@click.argument("routing_key")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
def route(target: Target, exchange: str, routing_key: str, headers: tuple[str, ...]) -> None:
    """Where a message would go, and why."""
    body = {
        "vhost": target.vhost,
        "exchange": exchange,
        "routing_key": routing_key,
        "headers": arguments_of(headers),
    }
    found = target.client.post("/simulate-route", body)
    if target.form == JSON:
        print_one(found, JSON)
        return
    if target.form == CSV:
        print_rows([{"queue": queue} for queue in found["queues"]], ("queue",), CSV)
        return
    for step in found["steps"]:
        _print_step(step)
    if found["routed"]:
        click.secho(f"reaches {', '.join(map(safe, found['queues']))}", bold=True)
    else:
        click.secho(f"reaches no queue: {safe(found['reason'])}", fg="red")


def _print_step(step: dict[str, Any]) -> None:
    """An exchange on the way, and the bindings that match."""
    name = safe(step["exchange"]) or "(default exchange)"
    click.echo(f"{name} ({step['type']}): {len(step['matched'])} of {step['bindings']} bindings match")
    for binding in step["matched"]:
        why = ", ".join(filter(None, [safe(binding["routing_key"]), safe(cell(binding["arguments"]))]))
        click.echo(f"  -> {binding['destination_type']} {safe(binding['destination'])}{f'  by {why}' if why else ''}")
    if step["alternate"]:
        click.echo(f"  -> its alternate exchange {safe(str(step['alternate']))}")
    if step["note"]:
        click.echo(f"  {safe(step['note'])}")


@click.group()
def bindings() -> None:
    """List, make and delete bindings."""


@bindings.command("list")
@targeted
@all_option
@columns_option
def list_bindings(target: Target, everywhere: bool, columns: str | None) -> None:
    """List bindings."""
    list_command(target, "/bindings" if everywhere else f"/bindings/{part(target.vhost)}", BINDING_COLUMNS, columns)


to_option = click.option("--to-exchange", is_flag=True, help="The destination is an exchange.  [default: a queue]")


@bindings.command("declare")
@targeted
@click.argument("source")
@click.argument("destination")
@click.argument("routing_key", default="")
@to_option
@argument_option
def declare_binding(
    target: Target, source: str, destination: str, routing_key: str, to_exchange: bool, arguments: tuple[str, ...]
) -> None:
    """Bind a queue (or an exchange) to an exchange."""
    path = in_vhost(target, "bindings", "e", source, "e" if to_exchange else "q", destination)
    target.client.post(path, {"routing_key": routing_key, "arguments": arguments_of(arguments)})
    done(f"bound {safe(destination)} to {safe(source)}")


@bindings.command("delete")
@targeted
@click.argument("source")
@click.argument("destination")
@click.argument("routing_key", default="")
@to_option
@click.option("--arguments", metavar="JSON", help="Arguments of the binding, if several have the same key.")
def delete_binding(
    target: Target, source: str, destination: str, routing_key: str, to_exchange: bool, arguments: str | None
) -> None:
    """Undo a binding."""
    path = in_vhost(target, "bindings", "e", source, "e" if to_exchange else "q", destination)
    wanted = json_of(arguments, "--arguments") if arguments else None
    found = [
        binding
        for binding in target.client.get(path)
        if binding["routing_key"] == routing_key and wanted in (None, binding["arguments"])
    ]
    if not found:
        raise Failed("there is no such binding")
    if len(found) > 1:
        raise Failed("several bindings have this key; select one with --arguments")
    target.client.delete(f"{path}/{part(found[0]['properties_key'])}")
    done(f"unbound {safe(destination)} from {safe(source)}")
