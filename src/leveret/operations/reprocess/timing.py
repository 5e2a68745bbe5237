"""When dead letters of a queue are retried and given up: the queue's own parameter counts before the policy that
applies to it, and that before the configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret.catalog.delays import parse_duration_ms, parse_interval_ms
from leveret.catalog.parameters import SCHEDULE_ARCHIVE_AFTER, SCHEDULE_EVERY
from leveret.catalog.patterns import Pattern, compile_pattern
from leveret.catalog.policy_keys import ARCHIVE_AFTER, REPROCESS_EVERY
from leveret.errors import InvalidPolicy

# As in broker.broker, which brings everything with it.
DEFAULT_VHOST = "/"
# Who said it.
FILE, POLICY, PARAMETER = "configuration", "policy", "parameter"


class Timing(NamedTuple):
    """Every 0 s is never; after 0 s nothing is archived."""

    every_s: float
    archive_after_s: float
    said_by: str = FILE

    def changed(self, said_by: str, every_ms: int | None, archive_after_ms: int | None) -> Timing:
        every_s = self.every_s if every_ms is None else every_ms / 1000
        archive_after_s = self.archive_after_s if archive_after_ms is None else archive_after_ms / 1000
        return Timing(every_s, archive_after_s, said_by)


def parse_choice(text: str) -> tuple[str, Pattern]:
    """The virtual host and the pattern that a queue's whole name must match: "vhost/pattern", or a pattern alone for
    the virtual host /. Raises ValueError."""
    vhost, slash, pattern = text.partition("/")
    if not slash:
        vhost, pattern = DEFAULT_VHOST, text
    if not pattern:
        raise ValueError("it names no queue")
    return vhost or DEFAULT_VHOST, compile_pattern(pattern)


def parse_timing(text: str, default: Timing) -> Timing:
    """As the configuration has it: "30min", or "30min, 12h" with the age at which letters are archived. Raises
    ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2:
        raise ValueError("it has more than an interval and an age")
    try:
        given = [parse_interval_ms(parts[0], "it"), *(parse_duration_ms(part, "it") for part in parts[1:])]
    except InvalidPolicy as error:
        raise ValueError(str(error)) from None
    return default.changed(FILE, given[0], given[1] if len(given) == 2 else None)


def by_policy(base: Timing | None, default: Timing, definition: Mapping[str, Any]) -> Timing | None:
    """A policy that names an age alone changes a schedule, and makes none."""
    every_ms, after_ms = (_ms(definition, key) for key in (REPROCESS_EVERY, ARCHIVE_AFTER))
    if every_ms is None and (after_ms is None or base is None):
        return base
    return (base or default).changed(POLICY, every_ms, after_ms)


def by_parameter(base: Timing | None, default: Timing, value: Any) -> Timing | None:
    if not isinstance(value, dict):
        return base
    return (base or default).changed(PARAMETER, _ms(value, SCHEDULE_EVERY), _ms(value, SCHEDULE_ARCHIVE_AFTER))


def _ms(given: Mapping[str, Any], key: str) -> int | None:
    """None if it is not said, or not in a way that this version takes: another one may have."""
    parse = parse_interval_ms if key in (REPROCESS_EVERY, SCHEDULE_EVERY) else parse_duration_ms
    try:
        return parse(given[key], key) if key in given else None
    except InvalidPolicy:
        return None
