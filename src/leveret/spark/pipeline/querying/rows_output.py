"""Rows of a query for people and programs: a table, CSV or JSON. Values come from messages: nothing in them reaches the
terminal as a command."""

from __future__ import annotations

import base64
import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import click

__all__ = ["CSV", "FORMATS", "JSON", "TABLE", "print_rows"]

TABLE, CSV, JSON = "table", "csv", "json"
FORMATS = (TABLE, CSV, JSON)
CELL_MAX = 80


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> int:
    """Prints them as they come, and gives how many there were. JSON is one object per line."""
    count = 0
    if form == TABLE:
        found = [list(row) for row in rows]
        _print_table(columns, found)
        return len(found)
    if form == CSV:
        click.echo(_csv_line(columns), nl=False)
    for row in rows:
        count += 1
        values = [_plain(value) for value in row]
        if form == CSV:
            click.echo(_csv_line([_csv_cell(value) for value in values]), nl=False)
        else:
            click.echo(json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False))
    return count


def _csv_line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _plain(value: Any) -> Any:
    """As JSON has it. Octets are text if they are UTF-8, else base64; moments are in UTC."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(inner) for name, inner in value.items()}
    # A Row is a tuple with names.
    if hasattr(value, "asDict"):
        return _plain(value.asDict())
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}Z"
    value = _plain(value)
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:,.2f}"
    elif isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"


def _print_table(columns: Sequence[str], rows: list[list[Any]]) -> None:
    right = [all(value is None or _is_number(value) for value in column) for column in zip(*rows, strict=True)]
    right = right or [False] * len(columns)
    texts = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, texts, right)
        return
    widths = [max([len(column), *(len(row[at]) for row in texts)]) for at, column in enumerate(columns)]
    for row in [list(columns), *texts]:
        padded = [
            text.rjust(width) if from_right else text.ljust(width)
            for text, width, from_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _print_rich(columns: Sequence[str], texts: list[list[str]], right: list[bool]) -> None:
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
