"""`leveret storage`: what is in a data directory, and whether it is whole. For people; nothing is ever changed.

Imports nothing but click until a command runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from leveret.catalog.catalog import Catalog
    from leveret.catalog.records import QueueRecord
    from leveret.storage.inspect import Inspection, Report, StoredMessage

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
    inspection, _ = _opened(data_dir)
    holder = inspection.holder()
    if holder is not None:
        click.echo(f"warning: broker {holder} is running; what it writes now may look like a torn end", err=True)
    report = inspection.check()
    if holder is not None and report.damages:
        # What is being written while it is read may look wrong once, not twice.
        inspection, _ = _opened(data_dir)
        report = inspection.check()
    for line in _check_lines(inspection, report):
        click.echo(line)
    if report.damages:
        sys.exit(DAMAGED)


@storage.command()
@_data_dir
@click.option("--queue", help="List the messages of this queue.")
@click.option("--vhost", default="/", show_default=True, help="The vhost of the queue.")
@click.option("--bodies", is_flag=True, help="Show bodies, too: as text, or as hex if they are none.")
@click.option("--limit", type=click.IntRange(min=0), help="Messages to show at most.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def dump(data_dir: Path | None, queue: str | None, vhost: str, bodies: bool, limit: int | None, output: str) -> None:
    """Show what exists, or with --queue the messages of a queue in order (as JSON: one object a line)."""
    import json
    from itertools import islice

    inspection, catalog = _opened(data_dir)
    inspection.read_contents()
    for damage in inspection.report.damages:
        click.echo(f"warning: {damage}", err=True)
    if queue is None:
        if output == "json":
            click.echo(json.dumps(_overview(inspection, catalog), default=_plain, ensure_ascii=False))
        else:
            for line in _overview_lines(_overview(inspection, catalog)):
                click.echo(line)
        return
    record = next((known for known in _durable_queues(catalog) if (known.vhost, known.name) == (vhost, queue)), None)
    if record is None:
        click.echo(f"leveret: there is no durable queue {queue!r} in vhost {vhost!r}", err=True)
        sys.exit(DAMAGED)
    messages = (_message(message, bodies) for message in islice(inspection.messages(record.id), limit))
    for fields in messages:
        click.echo(
            json.dumps(fields, default=_plain, ensure_ascii=False) if output == "json" else _message_text(fields)
        )


def _opened(data_dir: Path | None) -> tuple[Inspection, Catalog]:
    """The directory, and the catalog that is filled when it is read."""
    from leveret.catalog.catalog import Catalog
    from leveret.errors import LeveretError
    from leveret.node.settings import default_data_dir
    from leveret.storage.inspect import Inspection

    catalog = Catalog()
    try:
        return Inspection(data_dir or Path(default_data_dir()), lambda *found: _replay(catalog, *found)), catalog
    except (LeveretError, OSError) as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(NOT_A_DATA_DIRECTORY)


def _replay(catalog: Catalog, payloads: list[bytes], report: Report) -> set[int]:
    """Brings the catalog to what its log says; what makes no sense without something that was lost is a note."""
    from leveret.catalog.commands import decode_command

    for payload in payloads:
        try:
            catalog.apply(decode_command(payload))
        except KeyError as error:
            report.notes.append(f"a command of the catalog makes no sense without {error}, which is missing")
        except ValueError as error:
            report.notes.append(f"this version does not know a command of the catalog: {error}")
    return {queue.id for queue in _durable_queues(catalog)}


def _durable_queues(catalog: Catalog) -> list[QueueRecord]:
    found = [queue for topology in catalog.topologies.values() for queue in topology.queues.values() if queue.id]
    return sorted(found, key=lambda queue: (queue.vhost, queue.name))


# ---- check


def _check_lines(inspection: Inspection, report: Report) -> Iterator[str]:
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
    yield from _table(rows, right=range(1, 6))
    yield ""
    for note in report.notes:
        yield f"note: {note}"
    for damage in report.damages:
        yield f"DAMAGE: {damage}"
    size = sum(file.size for file in report.files)
    yield (
        f"{len(report.files)} files, {size} octets, {report.queues} durable queues with {report.messages} messages: "
        + (f"{len(report.damages)} damaged places" if report.damages else "all good")
    )


def _table(rows: Sequence[Sequence[object]], right: Iterable[int] = ()) -> Iterator[str]:
    """Plain aligned text."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))]
    aligned_right = set(right)
    for row in texts:
        cells = [cell.rjust(width) if i in aligned_right else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        yield "  ".join(cells).rstrip()


# ---- dump


def _overview(inspection: Inspection, catalog: Catalog) -> dict[str, Any]:
    """Everything that survives. Of users only what is no secret."""
    topologies = catalog.topologies.values()
    bindings = [
        binding for topology in topologies for found in topology.bindings_from.values() for binding in found.values()
    ]
    return {
        "vhosts": [{"name": vhost.name, "description": vhost.description} for vhost in catalog.vhosts.values()],
        "users": [{"name": user.name, "tags": list(user.tags)} for user in catalog.users.values()],
        "permissions": [
            {name: getattr(permission, name) for name in ("user", "vhost", "configure", "write", "read")}
            for permission in catalog.permissions.values()
        ],
        "exchanges": [
            {name: getattr(exchange, name) for name in ("vhost", "name", "kind", "internal", "arguments")}
            for topology in topologies
            for exchange in topology.exchanges.values()
        ],
        "queues": [_queue(inspection, queue) for queue in _durable_queues(catalog)],
        "bindings": [
            {
                "vhost": binding.vhost,
                "source": binding.source,
                "destination_type": "queue" if binding.to_queue else "exchange",
                "destination": binding.destination,
                "routing_key": binding.routing_key,
                "arguments": binding.arguments,
            }
            for binding in bindings
        ],
    }


def _queue(inspection: Inspection, queue: QueueRecord) -> dict[str, Any]:
    return {
        "vhost": queue.vhost,
        "name": queue.name,
        "kind": queue.kind,
        "messages": inspection.message_count(queue.id),
        "arguments": queue.arguments,
    }


def _overview_lines(overview: dict[str, Any]) -> Iterator[str]:
    for title, things in overview.items():
        yield f"{title}: {len(things)}"
        if things:
            head = list(things[0])
            numbers = [i for i, name in enumerate(head) if name == "messages"]
            rows = [[f"  {head[0]}", *head[1:]]]
            for thing in things:
                cells = [_cell(value) for value in thing.values()]
                rows.append([f"  {cells[0]}", *cells[1:]])
            yield from _table(rows, numbers)
        yield ""


def _cell(value: object) -> str:
    if isinstance(value, dict | list):
        return ", ".join(_shown(str(part)) for part in value) if isinstance(value, list) else _pairs(value)
    return _shown(str(value))


def _pairs(fields: dict[str, Any]) -> str:
    return " ".join(f"{_shown(name)}={_shown(str(_plain_deep(value)))}" for name, value in fields.items()) or "-"


def _shown(text: str) -> str:
    """Names come from clients: nothing of them may steer a terminal or look like another line."""
    return text if text.isprintable() and text else repr(text)


def _message(message: StoredMessage, bodies: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "position": message.position,
        "size": message.size,
        "deliveries": message.deliveries,
        "file": message.segment,
        "offset": message.offset,
    }
    if message.damaged:
        return fields | {"damaged": True}
    fields["exchange"] = message.exchange.decode("utf-8", "backslashreplace")
    fields["routing_key"] = message.routing_key.decode("utf-8", "backslashreplace")
    fields["properties"] = _plain_deep(message.properties)
    if bodies:
        text = _as_text(message.body)
        fields["encoding"] = "hex" if text is None else "text"
        fields["body"] = message.body.hex() if text is None else text
    return fields


def _as_text(octets: bytes) -> str | None:
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    return text if all(character.isprintable() or character in "\t\r\n" for character in text) else None


def _message_text(fields: dict[str, Any]) -> str:
    head = f"{fields['position']:>10}  {fields['size']:>9} octets  delivered {fields['deliveries']}x"
    if fields.get("damaged"):
        return f"{head}  DAMAGED: {fields['file']} at {fields['offset']}"
    text = f"{head}  exchange {fields['exchange']!r}  key {fields['routing_key']!r}  {_pairs(fields['properties'])}"
    if "body" in fields:
        body = fields["body"]
        text += f"\n            {fields['encoding']}: {body if fields['encoding'] == 'hex' else repr(body)}"
    return text


def _plain_deep(value: Any) -> Any:
    """Field values as JSON and people know them."""
    if isinstance(value, dict):
        return {str(name): _plain_deep(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_deep(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        text = _as_text(bytes(value))
        return value.hex() if text is None else text
    return str(value)
