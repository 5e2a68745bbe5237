"""`leveret sql`: questions about the broker's streams and queues and about the lake, in SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from leveret.spark.pipeline.arguments import Place, need_spark, placed
from leveret.spark.pipeline.failures import Failed, told
from leveret.spark.pipeline.querying.rows_output import FORMATS, TABLE, print_rows
from leveret.spark.pipeline.quiet import quiet_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from leveret.spark.pipeline.querying.views import Tables

__all__ = ["sql"]

SHOWN = 100
_UNKNOWN = re.compile(r"table or view (\S+) cannot be found", re.IGNORECASE)


@click.command()
@placed
@click.argument("query", required=False)
@click.option("--tables", "lists", is_flag=True, help="List what can be asked, and end.")
@click.option(
    "--limit", type=click.IntRange(0), help=f"So many rows at most, 0 for all.  [default: {SHOWN} in a table]"
)
@click.option("--output", "-o", "form", type=click.Choice(FORMATS), default=TABLE, help="[default: table]")
def sql(place: Place, query: str | None, lists: bool, limit: int | None, form: str) -> None:
    """Ask streams, queues and the lake in SQL.

    Every stream and queue of the broker is a table under its own name; the lake has archive, deadletters, silver,
    quarantine and the figures that the jobs write. Nothing is consumed. A name that is no plain word stands in
    backticks.

    \b
      leveret sql "select reason, count(*) from deadletters group by 1"
      leveret sql 'select routing_key, count(*) from `orders-0` group by 1' -o csv
    """
    if not lists and not query:
        raise click.UsageError("Say what to ask, or --tables to see what there is.")
    need_spark()
    from leveret.spark.errors import SparkConnectorError
    from leveret.spark.pipeline.querying.views import find_tables

    try:
        tables = find_tables(place.lake, place.connection)
    except SparkConnectorError as error:
        raise Failed(str(error)) from None
    if lists:
        _list(tables, form)
        return
    assert query is not None
    _ask(place, tables, query, SHOWN if limit is None and form == TABLE else limit, form)


def _list(tables: Tables, form: str) -> None:
    states = {True: "", False: "not written yet", None: ""}
    rows = [(table.name, table.kind, table.what, states[table.is_there]) for table in tables.found]
    print_rows(("table", "in", "what", "note"), rows, form)
    if tables.trouble:
        click.echo(f"leveret: without streams and queues: {tables.trouble}", err=True)


def _ask(place: Place, tables: Tables, query: str, limit: int | None, form: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from leveret.spark.errors import SparkConnectorError
    from leveret.spark.pipeline.querying.views import DEADLETTERS, is_read_once, register

    named = tables.named_in(query)
    if tables.trouble and any(table.name == DEADLETTERS for table in named):
        click.echo(f"leveret: these are dead letters of the archive alone: {tables.trouble}", err=True)
    try:
        with quiet_session(place, "sql") as spark:
            for table in named:
                register(spark, table, is_read_once(table, query))
            _print(spark.sql(query), limit, form)
    except SparkConnectorError as error:
        raise Failed(str(error)) from None
    except (PySparkException, Py4JError) as error:
        unknown = _UNKNOWN.search(str(error))
        raise Failed(_no_such(unknown[1], tables) if unknown else told(error)) from None


def _print(found: DataFrame, limit: int | None, form: str) -> None:
    if not limit:
        print_rows(found.columns, found.toLocalIterator(), form)
        return
    rows = found.limit(limit + 1).collect()
    print_rows(found.columns, rows[:limit], form)
    if len(rows) > limit:
        click.echo(f"leveret: there are more than {limit} rows; --limit 0 shows all", err=True)


def _no_such(name: str, tables: Tables) -> str:
    known = ", ".join(table.name for table in tables.found if table.is_there is not False)
    trouble = f" (without streams and queues: {tables.trouble})" if tables.trouble else ""
    return f"there is no table {name}; there are {known}{trouble}"
