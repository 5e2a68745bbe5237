"""`leveret parameters`"""

from __future__ import annotations

import click

from leveret.cli.asking import all_option, done, json_of
from leveret.cli.client import part
from leveret.cli.output import print_rows, safe
from leveret.cli.target import Target, targeted

COLUMNS = ("vhost", "component", "name", "value")
GLOBAL_COLUMNS = ("name", "value")


@click.group()
def parameters() -> None:
    """Settings of shovels, federation and limits that live in the broker."""


def _path(target: Target, component: str, name: str) -> str:
    """A component named global has its parameters for the whole broker."""
    if component == "global":
        return f"/global-parameters/{part(name)}"
    return f"/parameters/{part(component)}/{part(target.vhost)}/{part(name)}"


@parameters.command("list")
@targeted
@all_option
@click.option("--component", metavar="NAME", help="Only parameters of this component; global for global parameters.")
def list_parameters(target: Target, everywhere: bool, component: str | None) -> None:
    """List parameters."""
    if component == "global":
        print_rows(target.client.get("/global-parameters"), GLOBAL_COLUMNS, target.form)
        return
    rows = target.client.get("/parameters" if component is None else f"/parameters/{part(component)}")
    print_rows([row for row in rows if everywhere or row["vhost"] == target.vhost], COLUMNS, target.form)


@parameters.command("set")
@targeted
@click.argument("component")
@click.argument("name")
@click.argument("value", metavar="JSON")
def set_parameter(target: Target, component: str, name: str, value: str) -> None:
    """Set a parameter, such as: leveret parameters set federation-upstream up '{"uri": "amqp://there"}'

    The component global holds parameters of the whole broker."""
    body = {"component": component, "name": name, "value": json_of(value, "the value")}
    made = target.client.put(_path(target, component, name), body)
    done(f"set {safe(name)}" if made == 201 else f"changed {safe(name)}")


@parameters.command("clear")
@targeted
@click.argument("component")
@click.argument("name")
def clear_parameter(target: Target, component: str, name: str) -> None:
    """Take a parameter away."""
    target.client.delete(_path(target, component, name))
    done(f"cleared {safe(name)}")
