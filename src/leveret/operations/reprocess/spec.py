"""What can be asked for: a job's spec as operators give it, and how a job looks from outside."""

from __future__ import annotations

import math

import msgspec

from leveret.catalog.records import ReplayArchive, ReplayFilter, Reprocessing
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.errors import InvalidReplay
from leveret.operations.reprocess.filter import CompiledFilter

ORIGIN, ORIGIN_QUEUE, TARGET = "origin", "origin-queue", "target"
# Kinds of alerts.
ARCHIVED, ARCHIVE_FAILED = "archived", "archive-failed"
ALERT_KINDS = (ARCHIVED, ARCHIVE_FAILED)
DESTINATIONS = (ORIGIN, ORIGIN_QUEUE, TARGET)
RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"
LIMIT_MAX = 1 << 53
RATE_MAX = 1e9


class ReplaySpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`to` is origin (exchange and key of the first death), origin-queue (the queue of it) or target (the exchange and
    key given here). A limit or rate of 0 is none."""

    to: str = ORIGIN
    exchange: str = ""
    routing_key: str = ""
    filter: ReplayFilter = ReplayFilter()
    limit: int = 0
    # Messages a second.
    rate: float = 0.0
    dry_run: bool = False
    archive: ReplayArchive | None = None
    # End at the first message that cannot be moved, instead of passing over it.
    stops: bool = False


class JobView(msgspec.Struct, frozen=True):
    """A job and its progress, for people. `remaining` is what it has not looked at yet, as far as can be told;
    `waiting` says why it stands still, empty if it does not."""

    id: str
    vhost: str
    queue: str
    spec: ReplaySpec
    scheduled: bool
    state: str
    created_ms: int
    ended_ms: int
    matched: int
    moved: int
    archived: int
    skipped: int
    failed: int
    remaining: int
    moved_per_s: float
    waiting: str
    last_error: str


class Alert(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator on call must know of a queue of dead letters: so many messages were given up and archived, or
    should have been and could not."""

    at_ms: int
    vhost: str
    queue: str
    job: str
    kind: str
    count: int
    # The file, the directory, or the exchange and key that they went to or were to go to.
    archive: str
    error: str = ""


def check_spec(spec: ReplaySpec) -> None:
    """Raises InvalidReplay."""
    if spec.to not in DESTINATIONS:
        raise InvalidReplay("to", f"{spec.to!r} is none of {', '.join(DESTINATIONS)}")
    if spec.to != TARGET and (spec.exchange or spec.routing_key):
        raise InvalidReplay("exchange", f"an exchange or routing key is only of use with to = {TARGET}")
    if not 0 <= spec.limit <= LIMIT_MAX:
        raise InvalidReplay("limit", f"{spec.limit} is not a number of messages; 0 is no limit")
    if not (math.isfinite(spec.rate) and 0 <= spec.rate <= RATE_MAX):
        raise InvalidReplay("rate", f"{spec.rate} is not a number of messages a second; 0 is no limit")
    _check_name("exchange", spec.exchange)
    _check_name("routing_key", spec.routing_key)
    if spec.archive is not None:
        if not (math.isfinite(spec.archive.after_s) and spec.archive.after_s >= 0):
            raise InvalidReplay("archive.after_s", f"{spec.archive.after_s} is not a number from 0 on")
        _check_name("archive.exchange", spec.archive.exchange)
        _check_name("archive.routing_key", spec.archive.routing_key)
    CompiledFilter(spec.filter)


def _check_name(field: str, name: str) -> None:
    if len(name_octets(name)) > NAME_OCTETS_MAX:
        raise InvalidReplay(field, f"it is longer than {NAME_OCTETS_MAX} bytes")


def new_record(
    vhost: str, queue: str, id: str, spec: ReplaySpec, scheduled: bool, now_ms: int, end_position: int
) -> Reprocessing:
    return Reprocessing(
        vhost,
        queue,
        id,
        spec.to,
        spec.exchange,
        spec.routing_key,
        spec.filter,
        spec.limit,
        spec.rate,
        spec.dry_run,
        spec.archive,
        scheduled,
        now_ms,
        end_position,
        stops=spec.stops,
    )


def view(record: Reprocessing, remaining: int = 0, moved_per_s: float = 0.0, waiting: str = "") -> JobView:
    spec = ReplaySpec(
        record.to,
        record.exchange,
        record.routing_key,
        record.filter,
        record.limit,
        record.rate,
        record.dry_run,
        record.archive,
        record.stops,
    )
    return JobView(
        record.id,
        record.vhost,
        record.queue,
        spec,
        record.scheduled,
        record.state,
        record.created_ms,
        record.ended_ms,
        record.matched,
        record.moved,
        record.archived,
        record.skipped,
        record.failed,
        remaining,
        moved_per_s,
        waiting,
        record.last_error,
    )
