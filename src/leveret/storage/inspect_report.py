"""What a look into a data directory comes to, as plain data. Filled by storage.inspect and storage.stream.inspect."""

from __future__ import annotations

from dataclasses import dataclass, field

from leveret.storage.damage import Damage


@dataclass(slots=True)
class FileReport:
    """One file. `records` and `messages` are those that count; `live` is None where that is no question."""

    name: str
    size: int
    records: int = 0
    messages: int = 0
    live: int | None = None
    damages: int = 0


@dataclass(slots=True)
class Report:
    """What a check found. Damage is what was once safe and is not what it was; notes are worth knowing and no harm."""

    files: list[FileReport] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Those of queues; an exchange may keep some more.
    messages: int = 0
    queues: int = 0
    stream_messages: int = 0
    streams: int = 0


@dataclass(frozen=True, slots=True)
class KnownIds:
    """What the catalog knows, by the ids that the log has for it. None was ever given from `next_id` on. Streams are
    not among the queues."""

    queues: set[int]
    exchanges: set[int]
    next_id: int
    streams: set[int] = field(default_factory=set)
