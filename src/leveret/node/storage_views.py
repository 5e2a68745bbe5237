"""What a data directory has, as plain data for programs and as text for people. Never reads a file.

Called by `leveret storage`, which is imported with every command line: imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leveret.catalog.catalog import Catalog
    from leveret.catalog.records import ExchangeRecord, Policy, QueueRecord, Reprocessing
    from leveret.storage.inspect import Inspection, StoredMessage


STREAM = "stream"
# Columns that are aligned to the right.
NUMBERS = ("messages", "delayed", "segments", "octets", "first_offset", "next_offset")


def durable_queues(catalog: Catalog) -> list[QueueRecord]:
    """Streams among them."""
    found = [queue for topology in catalog.topologies.values() for queue in topology.queues.values() if queue.id]
    return sorted(found, key=lambda queue: (queue.vhost, queue.name))


def keeping_exchanges(catalog: Catalog) -> list[ExchangeRecord]:
    """Those with something in the log: delayed messages, or keys that were seen."""
    found = [known for topology in catalog.topologies.values() for known in topology.exchanges.values() if known.id]
    return sorted(found, key=lambda exchange: (exchange.vhost, exchange.name))


# ---- what exists


def overview(inspection: Inspection, catalog: Catalog) -> dict[str, Any]:
    """Everything that survives. Of users only what is no secret."""
    from leveret.node.stream_views import stream_fields

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
        "policies": [_policy(policy) for book in catalog.policies.values() for policy in book.all()],
        "exchanges": [
            _exchange(inspection, exchange) for topology in topologies for exchange in topology.exchanges.values()
        ],
        "queues": [_queue(inspection, queue) for queue in durable_queues(catalog)],
        "streams": [
            stream_fields(queue, inspection.streams.contents(queue.id))
            for queue in durable_queues(catalog)
            if queue.kind == STREAM
        ],
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
        "jobs": [_job(job) for job in catalog.jobs.values()],
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "operator": policy.operator,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "priority": policy.priority,
        "set": moment(policy.set_at_ms),
        "definition": policy.definition,
    }


def _job(job: Reprocessing) -> dict[str, Any]:
    import msgspec

    asked = msgspec.structs.asdict(job.filter)
    counts = {name: getattr(job, name) for name in ("matched", "moved", "archived", "skipped", "failed")}
    return {
        "vhost": job.vhost,
        "queue": job.queue,
        "id": job.id,
        "state": job.state,
        "dry_run": job.dry_run,
        "scheduled": job.scheduled,
        "created": moment(job.created_ms),
        "ended": moment(job.ended_ms) if job.ended_ms else None,
        "to": job.to,
        "exchange": job.exchange,
        "routing_key": job.routing_key,
        **counts,
        "limit": job.limit,
        "rate": job.rate,
        "filter": {name: value for name, value in asked.items() if value is not None and value != {}},
        "archive": None if job.archive is None else msgspec.structs.asdict(job.archive),
        "last_error": job.last_error,
    }


def _exchange(inspection: Inspection, exchange: ExchangeRecord) -> dict[str, Any]:
    return {
        "vhost": exchange.vhost,
        "name": exchange.name,
        "kind": exchange.kind,
        "internal": exchange.internal,
        "delayed": inspection.delayed_count(exchange.id) if exchange.id else 0,
        "arguments": exchange.arguments,
    }


def _queue(inspection: Inspection, queue: QueueRecord) -> dict[str, Any]:
    return {
        "vhost": queue.vhost,
        "name": queue.name,
        "kind": queue.kind,
        "messages": inspection.message_count(queue.id),
        "delayed": inspection.delayed_count(queue.id),
        "arguments": queue.arguments,
    }


def overview_lines(tree: dict[str, Any]) -> Iterator[str]:
    for title, things in tree.items():
        yield f"{title}: {len(things)}"
        if things:
            head = list(things[0])
            numbers = [i for i, name in enumerate(head) if name in NUMBERS]
            rows = [[f"  {head[0]}", *head[1:]]]
            for thing in things:
                cells = [_cell(value) for value in thing.values()]
                rows.append([f"  {cells[0]}", *cells[1:]])
            yield from table(rows, numbers)
        yield ""


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        return ", ".join(_shown(str(part)) for part in value) if isinstance(value, list) else pairs(value)
    return _shown(str(value))


def pairs(fields: dict[str, Any]) -> str:
    return " ".join(f"{_shown(name)}={_shown(str(plain_deep(value)))}" for name, value in fields.items()) or "-"


def _shown(text: str) -> str:
    """Names come from clients: nothing of them may steer a terminal or look like another line."""
    return text if text.isprintable() and text else repr(text)


def table(rows: Sequence[Sequence[object]], right: Iterable[int] = ()) -> Iterator[str]:
    """Plain aligned text."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))]
    aligned_right = set(right)
    for row in texts:
        cells = [cell.rjust(width) if i in aligned_right else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        yield "  ".join(cells).rstrip()


# ---- messages


def message_fields(message: StoredMessage, bodies: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "position": message.position,
        "size": message.size,
        "deliveries": message.deliveries,
        "priority": message.priority,
        "delayed": message.is_delayed,
        "file": message.segment,
        "offset": message.offset,
    }
    if message.due_ms is not None:
        fields["due"] = moment(message.due_ms)
    if message.damaged:
        return fields | {"damaged": True}
    if message.due_ms is None and message.stamp_ms is not None:
        fields["arrived"] = moment(message.stamp_ms)
    if message.expiration_ms is not None:
        fields["expiration_ms"] = message.expiration_ms
    fields["exchange"] = message.exchange.decode("utf-8", "backslashreplace")
    fields["routing_key"] = message.routing_key.decode("utf-8", "backslashreplace")
    fields["properties"] = plain_deep(message.properties)
    if bodies:
        text = as_text(message.body)
        fields["encoding"] = "hex" if text is None else "text"
        fields["body"] = message.body.hex() if text is None else text
    return fields


def moment(milliseconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def as_text(octets: bytes) -> str | None:
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    return text if all(character.isprintable() or character in "\t\r\n" for character in text) else None


def message_text(fields: dict[str, Any]) -> str:
    head = f"{fields['position']:>10}  {fields['size']:>9} octets  delivered {fields['deliveries']}x"
    head += f"  priority {fields['priority']}"
    if fields["delayed"]:
        head += f"  DELAYED until {fields['due']}"
    if fields.get("damaged"):
        return f"{head}  DAMAGED: {fields['file']} at {fields['offset']}"
    if "arrived" in fields:
        head += f"  arrived {fields['arrived']}"
    if "expiration_ms" in fields:
        head += f"  expires after {fields['expiration_ms']} ms"
    text = f"{head}  exchange {fields['exchange']!r}  key {fields['routing_key']!r}  {pairs(fields['properties'])}"
    if "body" in fields:
        body = fields["body"]
        text += f"\n            {fields['encoding']}: {body if fields['encoding'] == 'hex' else repr(body)}"
    return text


def plain_deep(value: Any) -> Any:
    """Field values as JSON and people know them."""
    if isinstance(value, dict):
        return {str(name): plain_deep(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_deep(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return plain(value)


def plain(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        text = as_text(bytes(value))
        return value.hex() if text is None else text
    return str(value)
