"""What rabbitmqctl's verbs print: a line of what is done, a head, and rows with tabs between; or JSON, or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from leveret.cli.ctl.words import Misuse, Words
from leveret.cli.output import value_at

FORMATTERS = ("table", "pretty_table", "json", "json_stream", "csv", "erlang")


def announce(words: Words, text: str) -> None:
    if not words.has("quiet") and not words.has("silent") and formatter(words) in ("table", "pretty_table"):
        click.echo(text)


def formatter(words: Words) -> str:
    chosen = words.options.get("formatter", "table")
    if chosen not in FORMATTERS:
        raise Misuse(f"there is no formatter {chosen!r}; use table, json or csv")
    if chosen == "erlang":
        raise Misuse("the formatter erlang is not supported; use json")
    return chosen


def print_rows(
    words: Words, rows: Iterable[dict[str, Any]], columns: Sequence[str], table: Callable[[Any], str] | None = None
) -> None:
    """`table` writes tables of AMQP; without it they are JSON."""
    found = [{column: value_at(row, column) for column in columns} for row in rows]
    kind = formatter(words)
    if kind == "json":
        click.echo(json.dumps(found, ensure_ascii=False))
    elif kind == "json_stream":
        for row in found:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif kind == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text(value, table) for value in row.values()] for row in found)
    else:
        # As there: without rows there is no head either.
        if found and not words.has("silent") and not words.has("no-table-headers"):
            click.echo("\t".join(columns))
        for row in found:
            click.echo("\t".join(_text(value, table) for value in row.values()))


def _text(value: Any, table: Callable[[Any], str] | None = None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        if table is not None:
            return table(value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else "[]"
    text = str(value)
    return "".join(letter if letter.isprintable() else f"\\{ord(letter):03o}" for letter in text)
