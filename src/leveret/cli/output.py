"""What a command prints: a table for people, JSON or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

TABLE, JSON, CSV = "table", "json", "csv"
FORMATS = (TABLE, JSON, CSV)
Row = dict[str, Any]
MOMENTS_MS = ("since", "timestamp")
MOMENTS_S = ("first_death_s", "last_death_s")
DURATIONS_MS = ("uptime", "oldest_message_age_ms")
SIZES = ("mem_used", "mem_limit", "disk_free", "disk_free_limit", "message_bytes", "payload_bytes")


def value_at(row: Any, column: str) -> Any:
    """a.b is b within a; a name with a dot in it is tried first."""
    if isinstance(row, dict) and column in row:
        return row[column]
    for name in column.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def cell(value: Any, column: str = "") -> str:
    """A value as people read it; what a number counts is in the name of its column."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and column:
        last = column.rpartition(".")[2]
        if last in MOMENTS_MS or last.endswith("_at"):
            return moment(value / 1000)
        if last in MOMENTS_S:
            return moment(value)
        if last in DURATIONS_MS:
            return duration(value / 1000)
        if last in SIZES:
            return size(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, dict) and all(not isinstance(item, dict | list) for item in value.values()):
        return ", ".join(f"{name}={cell(item)}" for name, item in value.items())
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) if value else ""
    return str(value)


def moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def duration(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = [(days, "d"), (hour, "h"), (minute, "min"), (second, "s")]
    return " ".join(f"{value} {unit}" for value, unit in parts if value) or "0 s"


def size(octets: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if octets < 1024:
            return f"{octets:.0f} {unit}" if unit == "B" or octets >= 10 else f"{octets:.1f} {unit}"
        octets /= 1024
    return f"{octets:.1f} TiB"


def print_rows(rows: Iterable[Row], columns: Sequence[str], form: str, head: bool = True) -> None:
    """`columns` are those of tables and CSV; JSON has everything that came, unless columns were asked for."""
    found = list(rows)
    if form == JSON:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif form == CSV:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if head:
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
            click.echo(f"{click.style(column.ljust(width), bold=True)}  {safe(cell(value_at(row, column), column))}")


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
    texts = [[safe(cell(value, column)) for value, column in zip(row, columns, strict=True)] for row in values]
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
