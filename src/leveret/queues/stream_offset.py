"""Where a consumer of a stream starts: the argument x-stream-offset, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leveret.catalog.arguments import is_integer
from leveret.catalog.policy_keys import age_s
from leveret.core.field_types import Timestamp
from leveret.core.wording import shown_type
from leveret.errors import SoftError

ARGUMENT = "x-stream-offset"
FIRST = "first"
LAST = "last"
NEXT = "next"


@dataclass(frozen=True, slots=True)
class Start:
    """`what` is first, last, next, offset or since; the last two with a number: an offset, or milliseconds of the wall
    clock."""

    what: str
    value: int = 0


def read_start(value: Any, now_ms: int, what: str) -> Start:
    """What x-stream-offset asks for; `what` is the queue in a text, such as: queue 'q' in vhost '/'."""
    if value is None:
        return Start(NEXT)
    if isinstance(value, Timestamp):
        return Start("since", int(value) * 1000)
    if is_integer(value):
        return Start("offset", max(value, 0))
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        if value in (FIRST, LAST, NEXT):
            return Start(value)
        age = age_s(value)
        if age:
            return Start("since", max(now_ms - 1000 * age, 0))
        shown = f'{{longstr,<<"{value}">>}}'
    else:
        shown = f"{{{shown_type(value)},{value}}}"
    raise SoftError(406, f"invalid arg '{ARGUMENT}' for {what}: {{invalid_stream_offset_arg,{shown}}}")
