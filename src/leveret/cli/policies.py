"""`leveret policies`"""

from __future__ import annotations

import click

from leveret.cli.asking import all_option, arguments_of, done, in_vhost, json_of
from leveret.cli.client import part
from leveret.cli.output import print_rows, safe
from leveret.cli.target import Target, targeted

COLUMNS = ("vhost", "name", "pattern", "apply-to", "priority", "definition")


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


operator_option = click.option("--operator", is_flag=True, help="An operator policy, which can only lower limits.")


@click.group()
def policies() -> None:
    """Settings for many queues and exchanges at once, by their names."""


@policies.command("list")
@targeted
@all_option
@operator_option
def list_policies(target: Target, everywhere: bool, operator: bool) -> None:
    """List policies."""
    path = f"/{_kind(operator)}" if everywhere else f"/{_kind(operator)}/{part(target.vhost)}"
    print_rows(target.client.get(path), COLUMNS, target.form)


@policies.command("set")
@targeted
@click.argument("name")
@click.argument("pattern")
@click.argument("settings", nargs=-1, metavar="KEY=VALUE...")
@click.option("--definition", metavar="JSON", help="Definition as JSON, instead of KEY=VALUE.")
@click.option("--priority", type=int, default=0, show_default=True)
@click.option(
    "--apply-to",
    type=click.Choice(["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"]),
    default="all",
    show_default=True,
)
@operator_option
def set_policy(
    target: Target,
    name: str,
    pattern: str,
    settings: tuple[str, ...],
    definition: str | None,
    priority: int,
    apply_to: str,
    operator: bool,
) -> None:
    """Set a policy, such as: leveret policies set short '^log' max-length=1000"""
    if (definition is None) == (not settings):
        raise click.UsageError("give KEY=VALUE or a --definition")
    chosen = json_of(definition, "--definition") if definition is not None else arguments_of(settings)
    body = {"pattern": pattern, "definition": chosen, "priority": priority, "apply-to": apply_to}
    target.client.put(in_vhost(target, _kind(operator), name), body)
    done(f"set policy {safe(name)}")


@policies.command()
@targeted
@click.argument("name")
@operator_option
def delete(target: Target, name: str, operator: bool) -> None:
    """Delete a policy."""
    target.client.delete(in_vhost(target, _kind(operator), name))
    done(f"deleted policy {safe(name)}")
