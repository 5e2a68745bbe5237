"""Where a consumer of a stream starts: the argument x-stream-offset, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from leveret.catalog.arguments import is_integer
from leveret.catalog.policy_keys import age_s
from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.names import name_text
from leveret.core.codec.wording import shown_type
from leveret.errors import SoftError

ARGUMENT = "x-stream-offset"
FIRST = "first"
LAST = "last"
NEXT = "next"
# As long as a moment with a fraction and a time zone is, and some more.
MOMENT_CHARS_MAX = 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Start:
    """`what` is first, last, next, offset or since; the last two with a number: an offset, or milliseconds of the wall
    clock."""

    what: str
    value: int = 0


def moment_ms(text: str) -> int | None:
    """Milliseconds since 1970 of a moment as ISO 8601 writes it, in UTC unless it names a time zone; None if the
    text is none."""
    if len(text) > MOMENT_CHARS_MAX:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        return None
    return (since.days * 86400 + since.seconds) * 1000 + since.microseconds // 1000


def read_start(value: Any, now_ms: int, what: str) -> Start:
    """What x-stream-offset asks for; `what` is the queue in a text, such as: queue 'q' in vhost '/'."""
    if value is None:
        return Start(NEXT)
    if isinstance(value, Timestamp):
        return Start("since", int(value) * 1000)
    if is_integer(value):
        return Start("offset", max(value, 0))
    if isinstance(value, bytes):
        value = name_text(value)
    if isinstance(value, str):
        if value in (FIRST, LAST, NEXT):
            return Start(value)
        age = age_s(value)
        if age:
            return Start("since", max(now_ms - 1000 * age, 0))
        moment = moment_ms(value)
        if moment is not None:
            return Start("since", max(moment, 0))
        shown = f'{{longstr,<<"{value}">>}}'
    else:
        shown = f"{{{shown_type(value)},{value}}}"
    raise SoftError(406, f"invalid arg '{ARGUMENT}' for {what}: {{invalid_stream_offset_arg,{shown}}}")
