"""What a command prints: a table for people, JSON or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

TABLE, JSON, CSV = "table", "json", "csv"
FORMATS = (TABLE, JSON, CSV)
Row = dict[str, Any]


def value_at(row: Any, column: str) -> Any:
    """a.b is b within a; a name with a dot in it is tried first."""
    if isinstance(row, dict) and column in row:
        return row[column]
    for name in column.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def cell(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) if value else ""
    return str(value)


def print_rows(rows: Iterable[Row], columns: Sequence[str], form: str) -> None:
    """`columns` are those of tables and CSV; JSON has everything that came, unless columns were asked for."""
    found = list(rows)
    if form == JSON:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif form == CSV:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_plain(value_at(row, column)) for column in columns] for row in found)
        click.echo(text.getvalue(), nl=False)
    else:
        _print_table(found, columns)


def print_one(row: Row, form: str, columns: Sequence[str] | None = None) -> None:
    """One thing: its fields below each other."""
    chosen = columns or [name for name, value in row.items() if value not in ({}, [], None, "")]
    if form == JSON:
        click.echo(json.dumps(row, indent=2, ensure_ascii=False))
    elif form == CSV:
        print_rows([row], chosen, CSV)
    else:
        width = max((len(column) for column in chosen), default=0)
        for column in chosen:
            click.echo(f"{click.style(column.ljust(width), bold=True)}  {safe(cell(value_at(row, column)))}")


def safe(text: str) -> str:
    """Names come from clients: nothing in them is to reach the terminal as a command."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def _plain(value: Any) -> Any:
    """For CSV: numbers and truth as programs write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


def _print_table(rows: list[Row], columns: Sequence[str]) -> None:
    values = [[value_at(row, column) for column in columns] for row in rows]
    right = [
        bool(values) and all(value is None or _is_number(value) for value in column)
        for column in zip(*values, strict=True)
    ] or [False] * len(columns)
    texts = [[safe(cell(value)) for value in row] for row in values]
    if sys.stdout.isatty():
        _print_rich(texts, columns, right)
    else:
        _print_plain(texts, columns, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _print_plain(texts: list[list[str]], columns: Sequence[str], right: list[bool]) -> None:
    widths = [max([len(column), *(len(row[at]) for row in texts)]) for at, column in enumerate(columns)]
    for row in [list(columns), *texts]:
        padded = [
            text.rjust(width) if from_right else text.ljust(width)
            for text, width, from_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _print_rich(texts: list[list[str]], columns: Sequence[str], right: list[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, from_right in zip(columns, right, strict=True):
        table.add_column(column, justify="right" if from_right else "left", overflow="fold")
    for row in texts:
        table.add_row(*(Text(text) for text in row))
    Console().print(table)
