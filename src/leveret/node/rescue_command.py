"""`leveret storage rescue`: what can be read of damaged files, as JSON lines. The data directory is never changed.

Imports nothing of the store until the command runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leveret.node.storage_views import as_text, durable_queues, keeping_exchanges, plain, plain_deep

if TYPE_CHECKING:
    from leveret.catalog.catalog import Catalog
    from leveret.storage.inspect import Inspection
    from leveret.storage.rescue import Rescue, Rescued

NOT_WHOLE = 1
GIVEN_UP = "given-up.jsonl"

Opened = Callable[[Path | None], "tuple[Inspection, Catalog]"]


def rescue_into(out: Path, inspection: Inspection, catalog: Catalog, everything: bool) -> None:
    """Writes what can be read into the directory, and says how much that is; status 1 if something is missing."""
    from leveret.storage.rescue import Rescue

    if inspection.salt is None:
        click.echo("leveret: there is no readable format file and no readable file beside it", err=True)
        sys.exit(NOT_WHOLE)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    rescue = Rescue(inspection.layout, inspection.salt)
    names = _names(inspection, catalog)
    incomplete = _write_given_up(out / GIVEN_UP, rescue, names)
    for source in rescue.files(everything):
        path = out / f"{source.name.replace('/', '-')}.jsonl"
        incomplete += _write(path, (_fields(found, names) for found in rescue.messages(source)))
    if incomplete:
        sys.exit(NOT_WHOLE)


def _names(inspection: Inspection, catalog: Catalog) -> dict[int, dict[str, str]]:
    """What the ids in the log are called, as far as the catalog can be read."""
    try:
        inspection.read_catalog()
    except OSError as error:
        click.echo(f"warning: the catalog cannot be read, so queues are known by their numbers: {error}", err=True)
    found = {queue.id: {"vhost": queue.vhost, "queue": queue.name} for queue in durable_queues(catalog)}
    for exchange in keeping_exchanges(catalog):
        found[exchange.id] = {"vhost": exchange.vhost, "exchange": exchange.name}
    return found


def _write_given_up(path: Path, rescue: Rescue, names: dict[int, dict[str, str]]) -> int:
    def lines() -> Iterator[dict[str, Any]]:
        for line, found in rescue.given_up():
            about = {"queue": line.queue, "position": line.position, "reason": line.reason}
            if found is None:
                yield about | {"file": line.file, "offset": line.offset, "length": line.length, "whole": False}
            else:
                yield about | _fields(found, names)

    return _write(path, lines())


def _write(path: Path, lines: Iterator[dict[str, Any]]) -> int:
    """How many of them are not whole. A file without a line is not made."""
    count = incomplete = 0
    file = None
    try:
        for fields in lines:
            if file is None:
                file = path.open("w", encoding="utf-8")
            file.write(json.dumps(fields, default=plain, ensure_ascii=False) + "\n")
            count += 1
            incomplete += not fields["whole"]
    finally:
        if file is not None:
            file.close()
    if count:
        click.echo(f"{path}: {count} messages, {incomplete} of them not whole")
    return incomplete


def _fields(found: Rescued, names: dict[int, dict[str, str]]) -> dict[str, Any]:
    text = as_text(found.body)
    fields: dict[str, Any] = {
        "file": found.file,
        "offset": found.offset,
        "whole": found.whole,
        "exchange": found.exchange.decode("utf-8", "backslashreplace"),
        "routing_key": found.routing_key.decode("utf-8", "backslashreplace"),
        "properties": plain_deep(found.properties),
        "encoding": "hex" if text is None else "text",
        "body": found.body.hex() if text is None else text,
    }
    if found.stream_offset is not None:
        fields["stream_offset"] = found.stream_offset
        fields["count"] = found.count
    else:
        fields["targets"] = [{"id": id, "position": position, **names.get(id, {})} for id, position in found.targets]
    if found.holes:
        fields["holes"] = found.holes
    return fields
