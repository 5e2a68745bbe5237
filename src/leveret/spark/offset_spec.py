"""Places in streams: what a user writes for an offset, and what an answer of the broker makes of it.

`{"orders-0": 12}` gives a place for each stream, "earliest" one for all of them, a moment means the first message that
came then or later. Kafka's -2 and -1 for earliest and latest are understood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from leveret.spark.errors import InvalidOption

__all__ = ["EARLIEST", "LATEST", "STORED", "OffsetSpec", "Place", "moment_ms"]

EARLIEST, LATEST, STORED = "earliest", "latest", "stored"
WORDS = {EARLIEST: EARLIEST, LATEST: LATEST, STORED: STORED, "first": EARLIEST, "next": LATEST}
KAFKAS = {-2: EARLIEST, -1: LATEST}
# An offset, a word, or a moment.
Place = int | str | datetime


def moment_ms(text: str) -> datetime:
    """ISO 8601, or milliseconds since 1970. Without a zone it is UTC, as everywhere here."""
    if text.strip().isdecimal():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    found = datetime.fromisoformat(text.strip())
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class OffsetSpec:
    def __init__(self, option: str, text: str | None, default: Place, timestamp: str | None = None) -> None:
        self._option = option
        self._each: dict[str, Place] = {}
        self._all: Place | None = default
        if text is not None and timestamp is not None:
            raise InvalidOption(f"{option} is given, and a timestamp as well: one of them is enough")
        if timestamp is not None:
            self._all = self._read(timestamp, lambda: moment_ms(timestamp))
        elif text is not None and text.lstrip().startswith("{"):
            found = self._read(text, lambda: json.loads(text))
            self._each = {stream: self._place(value) for stream, value in found.items()}
            self._all = None
        elif text is not None:
            self._all = self._place(text.strip())

    def _read(self, text: str, read: Any) -> Any:
        try:
            return read()
        except (ValueError, OverflowError) as error:
            raise InvalidOption(f"the option {self._option} is {text!r}: {error}") from None

    def _place(self, value: Any) -> Place:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidOption(
                f"the option {self._option} has {value!r}, which is neither an offset nor a word nor a moment"
            )
        if isinstance(value, str) and value in WORDS:
            return WORDS[value]
        if isinstance(value, str) and not value.isdecimal():
            return self._moment(value)
        number = int(value)
        if number in KAFKAS:
            return KAFKAS[number]
        if number < 0:
            raise InvalidOption(f"the option {self._option} has the offset {number}, which is below 0")
        return number

    def _moment(self, text: str) -> Place:
        try:
            return moment_ms(text)
        except ValueError:
            raise InvalidOption(
                f'the option {self._option} has {text!r}, which is not "earliest", "latest", "stored", an offset, '
                "JSON of these by stream, or an ISO 8601 moment"
            ) from None

    def of(self, stream: str) -> Place:
        found = self._each.get(stream, self._all)
        if found is None:
            raise InvalidOption(
                f"the option {self._option} names {', '.join(sorted(self._each))}, and not {stream}, which is "
                "read as well"
            )
        return found

    def is_exact(self, stream: str) -> bool:
        """Whether a message is meant, and not just the first there is: if that is gone, something is lost."""
        return isinstance(self.of(stream), int) or self.of(stream) == STORED

    def check_streams(self, streams: Mapping[str, int]) -> None:
        unknown = [name for name in self._each if name not in streams]
        if unknown:
            raise InvalidOption(
                f"the option {self._option} names {', '.join(unknown)}, which is not read; {', '.join(streams)} is"
            )

    @property
    def words(self) -> set[Place]:
        return {*self._each.values(), *([] if self._all is None else [self._all])}
