"""`leveret definitions`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from leveret.cli.asking import confirm, done, json_of, yes_option
from leveret.cli.client import part
from leveret.cli.exit_codes import Failed
from leveret.cli.output import cell, safe
from leveret.cli.target import Target, targeted

vhost_option = click.option("--only-vhost", is_flag=True, help="Only what is in the virtual host of --vhost.")


def _path(target: Target, only_vhost: bool) -> str:
    return f"/definitions/{part(target.vhost)}" if only_vhost else "/definitions"


def _read(file: Path) -> Any:
    try:
        return json_of(file.read_text("utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"cannot read {file}: {error}") from None


@click.group()
def definitions() -> None:
    """Everything but messages: users, virtual hosts, queues, exchanges, bindings, policies."""


@definitions.command()
@targeted
@click.argument("file", type=click.Path(path_type=Path), required=False)
@vhost_option
def export(target: Target, file: Path | None, only_vhost: bool) -> None:
    """Write the definitions to a file, or print them."""
    text = json.dumps(target.client.get(_path(target, only_vhost)), indent=2, ensure_ascii=False) + "\n"
    if file is None:
        click.echo(text, nl=False)
        return
    # They hold hashes of passwords.
    file.touch(mode=0o600)
    file.write_text(text, "utf-8")
    done(f"wrote {file}")


@definitions.command("import")
@targeted
@click.argument("file", type=click.Path(path_type=Path))
@vhost_option
@yes_option
def import_definitions(target: Target, file: Path, only_vhost: bool, yes: bool) -> None:
    """Take definitions of RabbitMQ or Leveret over: all of them, or none if one of them is wrong."""
    given = _read(file)
    confirm(f"Import {file} into {target.client.place}?", yes)
    target.client.post(_path(target, only_vhost), given)
    done(f"imported {file}")


def _print_diff(found: dict[str, Any]) -> None:
    signs = (("create", "+", "green"), ("change", "~", "yellow"), ("notices", "?", "yellow"), ("problems", "!", "red"))
    for kind, sign, colour in signs:
        for row in found.get(kind, []):
            click.secho(f"{sign} {safe(_line(row))}", fg=colour)


def _line(row: dict[str, Any]) -> str:
    if "place" in row:
        return f"{row['place']}: {row['reason']}"
    return f"{row['kind']} {cell({name: value for name, value in row.items() if name != 'kind'})}"


@definitions.command()
@targeted
@click.argument("file", type=click.Path(path_type=Path))
def diff(target: Target, file: Path) -> None:
    """What an import would change."""
    found = target.client.post("/definitions/diff", _read(file))
    if target.form == "json":
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print_diff(found)
        done(f"{found['unchanged']} are there already")


@definitions.command()
@targeted
@click.argument("file", type=click.Path(path_type=Path))
def validate(target: Target, file: Path) -> None:
    """Whether an import would succeed."""
    found = target.client.post("/definitions/diff", _read(file))
    if found["problems"]:
        _print_diff({"problems": found["problems"]})
        raise Failed(f"{file} cannot be imported")
    done(f"{file} can be imported")
