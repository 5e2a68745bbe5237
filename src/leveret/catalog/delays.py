"""Lists of delays as people write them, such as "1s, 5s, 30s, 5min": into milliseconds, or the bad part is named."""

from __future__ import annotations

import re
from typing import Any

from leveret.catalog.arguments import is_integer
from leveret.errors import InvalidPolicy

DELAYS_MAX = 32
INTERVAL_MS_MIN = 1000
DELAY_MS_MAX = 30 * 24 * 60 * 60 * 1000
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
# No longer number can be in range.
_DELAY = re.compile(r"([0-9]{1,10}) ?(ms|s|min|m|h|d)")
_SHOWN_CHARACTERS_MAX = 40


def parse_delays(value: Any, key: str = "retry-delays") -> tuple[int, ...]:
    """One string with commas, or a list whose items are strings of one delay or whole milliseconds. Raises
    InvalidPolicy for `key`."""
    if isinstance(value, str):
        parts: list[Any] = [part.strip() for part in value.split(",", DELAYS_MAX)]
    elif isinstance(value, list | tuple):
        parts = list(value[: DELAYS_MAX + 1])
    else:
        raise InvalidPolicy(key, f"{key} takes a text such as '1s, 5s, 5min' or a list, got {_shown(value)}")
    if not parts:
        raise InvalidPolicy(key, f"{key} has no delay in it")
    if len(parts) > DELAYS_MAX:
        raise InvalidPolicy(key, f"{key} has more than {DELAYS_MAX} delays")
    return tuple(_milliseconds(part, key) for part in parts)


def parse_duration_ms(value: Any, key: str) -> int:
    """One duration: a text such as '1h', or whole milliseconds; 0 and 'off' are 0. Raises InvalidPolicy for `key`."""
    if value == "off" or value == "0" or (is_integer(value) and value == 0):
        return 0
    if not isinstance(value, str) and not is_integer(value):
        raise InvalidPolicy(key, f"{key} takes a text such as '1h' or whole milliseconds, got {_shown(value)}")
    return _milliseconds(value, key)


def parse_interval_ms(value: Any, key: str) -> int:
    """The same for what comes again and again: all queues are looked at each time, so it is not to be too often."""
    interval = parse_duration_ms(value, key)
    if 0 < interval < INTERVAL_MS_MIN:
        raise InvalidPolicy(key, f"{key}: {_shown(value)} is too often; it must be {INTERVAL_MS_MIN} ms or more")
    return interval


def _milliseconds(part: Any, key: str) -> int:
    if isinstance(part, str):
        read = _DELAY.fullmatch(part.strip())
        if read is None:
            units = ", ".join(_UNITS_MS)
            raise InvalidPolicy(key, f"{key}: {_shown(part)} is not a whole number with a unit out of {units}")
        delay = int(read[1]) * _UNITS_MS[read[2]]
    elif is_integer(part):
        delay = int(part)
    else:
        raise InvalidPolicy(key, f"{key}: {_shown(part)} is neither a text nor a whole number of milliseconds")
    if not 1 <= delay <= DELAY_MS_MAX:
        raise InvalidPolicy(key, f"{key}: {_shown(part)} is not between 1 ms and 30 d")
    return delay


def _shown(value: Any) -> str:
    return repr(value)[:_SHOWN_CHARACTERS_MAX]
