"""`leveret storage`: what is in a data directory, whether it is whole, and what can be got out of what is not. For
people; nothing is ever changed.

Imports nothing of the store until a command runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leveret.node.storage_views import (
    STREAM,
    durable_queues,
    keeping_exchanges,
    message_fields,
    message_text,
    overview,
    overview_lines,
    plain,
    table,
)
from leveret.node.stream_views import Progress, entry_fields, entry_text, stream_fields, stream_lines

if TYPE_CHECKING:
    from leveret.catalog.catalog import Catalog
    from leveret.catalog.records import ExchangeRecord, QueueRecord
    from leveret.storage.inspect import Inspection
    from leveret.storage.inspect_report import KnownIds, Report

DAMAGED = 1
NOT_A_DATA_DIRECTORY = 2

_data_dir = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="The data directory.  [default: that of `leveret serve`]"
)


@click.group()
def storage() -> None:
    """Look into a data directory, also beside a running broker. Nothing is ever changed."""


@storage.command()
@_data_dir
def check(data_dir: Path | None) -> None:
    """Verify every record: exit status 0 if all is good, 1 if there is damage, 2 if this is no data directory."""
    inspection, catalog = opened_inspection(data_dir)
    holder = inspection.holder()
    if holder is not None:
        click.echo(f"warning: broker {holder} is running; what it writes now may look like a torn end", err=True)
    report = inspection.check()
    if holder is not None and report.damages:
        # What is being written while it is read may look wrong once, not twice.
        inspection, catalog = opened_inspection(data_dir)
        report = inspection.check()
    for line in _check_lines(inspection, catalog, report):
        click.echo(line)
    if report.damages:
        sys.exit(DAMAGED)


@storage.command()
@_data_dir
@click.option("--queue", help="List the messages of this queue or stream.")
@click.option("--exchange", help="List the delayed messages that this exchange keeps.")
@click.option("--vhost", default="/", show_default=True, help="The vhost of the queue or exchange.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Start at this offset of a stream.")
@click.option("--bodies", is_flag=True, help="Show bodies, too: as text, or as hex if they are none.")
@click.option("--limit", type=click.IntRange(min=0), help="Messages to show at most.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def dump(
    data_dir: Path | None,
    queue: str | None,
    exchange: str | None,
    vhost: str,
    offset: int,
    bodies: bool,
    limit: int | None,
    output: str,
) -> None:
    """Show what exists, or with --queue its messages by position, delayed ones last (as JSON: one object a line)."""
    import json

    if queue is not None and exchange is not None:
        raise click.UsageError("--queue and --exchange do not go together")
    inspection, catalog = opened_inspection(data_dir)
    inspection.read_contents()
    for damage in inspection.report.damages:
        click.echo(f"warning: {damage}", err=True)
    if queue is None and exchange is None:
        if output == "json":
            click.echo(json.dumps(overview(inspection, catalog), default=plain, ensure_ascii=False))
        else:
            for line in overview_lines(overview(inspection, catalog)):
                click.echo(line)
        return
    record = _record_of(catalog, vhost, queue, exchange)
    for fields, text in _messages(inspection, record, offset, bodies, limit):
        click.echo(json.dumps(fields, default=plain, ensure_ascii=False) if output == "json" else text(fields))


@storage.command()
@_data_dir
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where the files with messages go."
)
@click.option("--all", "everything", is_flag=True, help="Every segment, not only those in quarantine.")
def rescue(data_dir: Path | None, out: Path, everything: bool) -> None:
    """Get out what can be read of records that were given up and of files in quarantine, around bad sectors, as JSON:
    one message a line. Exit status 0 if everything is whole, 1 if something is missing."""
    from leveret.node.rescue_command import rescue_into

    rescue_into(out, *opened_inspection(data_dir), everything)


def _messages(
    inspection: Inspection, record: QueueRecord | ExchangeRecord, offset: int, bodies: bool, limit: int | None
) -> Iterator[tuple[dict[str, Any], Callable[[dict[str, Any]], str]]]:
    """Each message, and how it is shown as text."""
    from itertools import islice

    if record.kind == STREAM:
        for entry in islice(inspection.streams.entries(record.id, offset), limit):
            yield entry_fields(entry, bodies), entry_text
    else:
        for message in islice(inspection.messages(record.id), limit):
            yield message_fields(message, bodies), message_text


def _record_of(catalog: Catalog, vhost: str, queue: str | None, exchange: str | None) -> QueueRecord | ExchangeRecord:
    """The one that is asked for; ends the command if there is none."""
    records: Sequence[QueueRecord | ExchangeRecord]
    name: str | None
    if queue is not None:
        name, what, records = queue, "durable queue", durable_queues(catalog)
    else:
        name, what, records = exchange, "exchange that keeps messages", keeping_exchanges(catalog)
    for record in records:
        if (record.vhost, record.name) == (vhost, name):
            return record
    click.echo(f"leveret: there is no {what} {name!r} in vhost {vhost!r}", err=True)
    sys.exit(DAMAGED)


def opened_inspection(data_dir: Path | None) -> tuple[Inspection, Catalog]:
    """The directory, and the catalog that is filled when it is read."""
    from leveret.catalog.catalog import Catalog
    from leveret.errors import LeveretError
    from leveret.node.config.settings import default_data_dir
    from leveret.storage.inspect import Inspection

    catalog = Catalog()
    try:
        root = data_dir or Path(default_data_dir())
        return Inspection(root, lambda *found: _replay(catalog, *found), _progress()), catalog
    except (LeveretError, OSError) as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(NOT_A_DATA_DIRECTORY)


def _progress() -> Callable[[int, int], None]:
    """Told to people only: a script has no use for it."""
    from leveret.runtime.clock import Clock

    if not sys.stderr.isatty():
        return lambda _done, _total: None
    return Progress(Clock().monotonic, lambda text: click.echo(text, err=True))


def _replay(catalog: Catalog, payloads: list[bytes], report: Report) -> KnownIds:
    """Brings the catalog to what its log says; what makes no sense without something that was lost is a note."""
    from leveret.catalog.commands import decode_command
    from leveret.storage.inspect_report import KnownIds

    for payload in payloads:
        try:
            catalog.apply(decode_command(payload))
        except KeyError as error:
            report.notes.append(f"a command of the catalog makes no sense without {error}, which is missing")
        except ValueError as error:
            report.notes.append(f"this version does not know a command of the catalog: {error}")
    queues = {queue.id for queue in durable_queues(catalog) if queue.kind != STREAM}
    streams = {queue.id for queue in durable_queues(catalog) if queue.kind == STREAM}
    exchanges = {exchange.id for exchange in keeping_exchanges(catalog)}
    return KnownIds(queues, exchanges, catalog.next_queue_id, streams)


# ---- check


def _check_lines(inspection: Inspection, catalog: Catalog, report: Report) -> Iterator[str]:
    yield f"data directory {inspection.layout.root}"
    yield ""
    rows: list[Sequence[object]] = [("file", "records", "messages", "live", "size", "damage")]
    rows += [
        (
            file.name,
            file.records,
            file.messages,
            "-" if file.live is None else file.live,
            file.size,
            file.damages or "-",
        )
        for file in report.files
    ]
    yield from table(rows, right=range(1, 6))
    yield ""
    yield from _kept_lines(inspection, catalog)
    for queue in durable_queues(catalog):
        if queue.kind == STREAM:
            yield from stream_lines(stream_fields(queue, inspection.streams.contents(queue.id)))
    for note in report.notes:
        yield f"note: {note}"
    for damage in report.damages:
        yield f"DAMAGE: {damage}"
    size = sum(file.size for file in report.files)
    total = f"{len(report.files)} files, {size} octets, {report.queues} durable queues with {report.messages} messages"
    if report.streams:
        total += f", {report.streams} streams with {report.stream_messages} messages"
    yield f"{total}: " + (f"{len(report.damages)} damaged places" if report.damages else "all good")


def _kept_lines(inspection: Inspection, catalog: Catalog) -> Iterator[str]:
    """What is there beside messages that are ready: those that wait for their time, and keys of deduplication."""
    from leveret.broker.exchanges import deduplicates
    from leveret.queues.dedup import is_wanted, make_window
    from leveret.runtime.clock import Clock

    now_ms = int(Clock().wall() * 1000)
    keepers: list[tuple[str, ExchangeRecord | QueueRecord, bool]] = [
        ("exchange", exchange, deduplicates(exchange)) for exchange in keeping_exchanges(catalog)
    ]
    keepers += [("queue", queue, is_wanted(queue.arguments)) for queue in durable_queues(catalog)]
    for what, record, has_window in keepers:
        delayed = inspection.delayed_count(record.id)
        kept = [f"{delayed} delayed messages"] if delayed else []
        if has_window:
            # The log may still have keys that are too old, or too many.
            window = make_window(record.arguments, record.id, None)
            window.restore(inspection.keys(record.id), now_ms)
            kept.append(f"{len(window.keys)} keys of deduplication")
        if kept:
            yield f"{what} {record.name!r} in vhost {record.vhost!r}: {', '.join(kept)}"
