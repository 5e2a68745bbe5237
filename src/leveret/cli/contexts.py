"""`leveret context`: brokers by name, with how to reach them."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from leveret.cli.asking import done
from leveret.cli.client import shown
from leveret.cli.exit_codes import Failed
from leveret.cli.output import FORMATS, print_rows, safe
from leveret.cli.target import contexts_file, read_contexts


def _quoted(text: str) -> str:
    """As TOML writes it: like JSON, but for halves of letters, which it has not, and the one control character more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(contexts: dict[str, Any]) -> None:
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = [f"current = {_quoted(contexts['current'])}\n"] if contexts.get("current") else []
    for name, kept in sorted(contexts.get("contexts", {}).items()):
        lines.append(f"\n[contexts.{_quoted(name)}]\n")
        lines += [f"{key} = {_quoted(value)}\n" for key, value in kept.items()]
    fresh = path.with_suffix(".new")
    # It may hold passwords.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(lines)
    fresh.replace(path)


@click.group()
def context() -> None:
    """Brokers by name: `leveret queues list -c production`."""


@context.command("list")
@click.option("--output", "-o", "form", type=click.Choice(FORMATS), default="table")
def list_contexts(form: str) -> None:
    """List contexts."""
    contexts = read_contexts()
    rows = [
        {
            "current": name == contexts.get("current"),
            "name": name,
            "place": shown(kept["url"]) if kept.get("url") else kept.get("socket", ""),
            "user": kept.get("user", ""),
            "vhost": kept.get("vhost", "/"),
        }
        for name, kept in sorted(contexts.get("contexts", {}).items())
    ]
    print_rows(rows, ("current", "name", "place", "user", "vhost"), form)


@context.command()
@click.argument("name")
@click.option("--url", metavar="URL")
@click.option("--socket", "socket_path", metavar="PATH")
@click.option("--user", "-u")
@click.option("--password-file", metavar="FILE")
@click.option("--ca", metavar="FILE")
@click.option("--vhost", "-p")
@click.option("--use/--no-use", default=True, help="Make it the current one.  [default: use]")
def add(name: str, use: bool, socket_path: str | None, **given: str | None) -> None:
    """Remember a broker."""
    if bool(given["url"]) == bool(socket_path):
        raise click.UsageError("give a --url or a --socket")
    contexts = read_contexts()
    kept = {key: value for key, value in {**given, "socket": socket_path}.items() if value is not None}
    contexts.setdefault("contexts", {})[name] = kept
    if use:
        contexts["current"] = name
    _write(contexts)
    done(f"{safe(name)} is {'the current context' if use else 'a context'}")


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """Make it the current one."""
    contexts = read_contexts()
    if name not in contexts.get("contexts", {}):
        raise Failed(f"there is no context {name!r}; see `leveret context list`")
    contexts["current"] = name
    _write(contexts)
    done(f"{safe(name)} is the current context")


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Forget a broker."""
    contexts = read_contexts()
    if contexts.get("contexts", {}).pop(name, None) is None:
        raise Failed(f"there is no context {name!r}; see `leveret context list`")
    if contexts.get("current") == name:
        del contexts["current"]
    _write(contexts)
    done(f"forgot {safe(name)}")
