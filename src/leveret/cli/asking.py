"""What commands share when they ask: lists a page at a time, arguments as NAME=VALUE, a yes before what cannot be
undone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from leveret.cli.client import part
from leveret.cli.exit_codes import Failed
from leveret.cli.output import print_rows
from leveret.cli.target import Target


def list_command(
    target: Target, path: str, columns: Sequence[str], asked: str | None = None, paged: bool = True, **query: Any
) -> None:
    """Prints a list: the usual columns, or those that were asked for."""
    chosen = [name.strip() for name in asked.split(",") if name.strip()] if asked else list(columns)
    if asked:
        query["columns"] = ",".join(chosen)
    rows = target.client.each(path, **query) if paged else target.client.get(path, **query)
    print_rows(rows, chosen, target.form)


def arguments_of(pairs: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, where the value is JSON if it reads as such, else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not name or not sign:
            raise click.UsageError(f"{pair!r} is not NAME=VALUE")
        found[name] = value_of(text)
    return found


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def json_of(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{what} is not JSON: {error}") from None


def confirm(question: str, yes: bool) -> None:
    """Only with --yes if there is no terminal to ask on."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed(f"{question} Use --yes to confirm.")
    click.confirm(question, abort=True)


def first_line(file: Path) -> str:
    """Of a file with a password."""
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"the password cannot be read: {error}") from None


def in_vhost(target: Target, kind: str, *names: str) -> str:
    """/queues/%2F/name"""
    return "/" + "/".join([kind, part(target.vhost), *(part(name) for name in names)])


@contextmanager
def until_interrupted() -> Iterator[None]:
    """For commands that run until they are interrupted, which is not an error."""
    with suppress(KeyboardInterrupt):
        yield


def done(text: str) -> None:
    """For people; scripts go by the exit status."""
    click.echo(text, err=True)


yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
columns_option = click.option("--columns", metavar="A,B", help="Only these columns, such as name,messages.")
all_option = click.option("--all", "-a", "everywhere", is_flag=True, help="Of all virtual hosts.")
argument_option = click.option(
    "--argument", "-A", "arguments", multiple=True, metavar="NAME=VALUE", help="Such as x-max-length=1000; repeatable."
)
