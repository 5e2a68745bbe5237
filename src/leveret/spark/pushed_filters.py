"""Filters that Spark pushes down: what of a WHERE the source can use to read less.

What they say about offsets and moments narrows the ranges; routing keys are looked at before a row is made. Spark
filters once more, so a wish may be served roughly, but never too narrowly: every filter is given back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

__all__ = ["PushedFilters"]

EQUAL = (EqualTo, EqualNullSafe)


class PushedFilters:
    def __init__(self) -> None:
        # Offsets from, and up to; moments from, and up to. None is anything.
        self.offset_from: int | None = None
        self.offset_to: int | None = None
        self.moment_from: datetime | None = None
        self.moment_to: datetime | None = None
        self.routing_keys: frozenset[bytes] | None = None
        self.routing_key_prefixes: tuple[bytes, ...] | None = None

    def take(self, filters: Iterable[Filter]) -> None:
        """Notes whatever is of use."""
        for one in filters:
            attribute = getattr(one, "attribute", None)
            if attribute == ("offset",):
                self._take_offset(one)
            elif attribute == ("timestamp",):
                self._take_moment(one)
            elif attribute == ("routing_key",):
                self._take_key(one)

    def _take_offset(self, one: Any) -> None:
        if isinstance(one, EQUAL) and isinstance(one.value, int):
            self._narrow_offset(one.value, one.value)
        elif isinstance(one, In) and one.value and all(isinstance(value, int) for value in one.value):
            self._narrow_offset(min(one.value), max(one.value))
        elif isinstance(one, GreaterThan):
            self._narrow_offset(one.value + 1, None)
        elif isinstance(one, GreaterThanOrEqual):
            self._narrow_offset(one.value, None)
        elif isinstance(one, LessThan):
            self._narrow_offset(None, one.value - 1)
        elif isinstance(one, LessThanOrEqual):
            self._narrow_offset(None, one.value)

    def _narrow_offset(self, lowest: int | None, highest: int | None) -> None:
        if lowest is not None:
            self.offset_from = lowest if self.offset_from is None else max(self.offset_from, lowest)
        if highest is not None:
            self.offset_to = highest if self.offset_to is None else min(self.offset_to, highest)

    def _take_moment(self, one: Any) -> None:
        moment = _moment(getattr(one, "value", None))
        if moment is None:
            return
        if isinstance(one, (*EQUAL, GreaterThan, GreaterThanOrEqual)):
            self.moment_from = moment if self.moment_from is None else max(self.moment_from, moment)
        if isinstance(one, (*EQUAL, LessThan, LessThanOrEqual)):
            self.moment_to = moment if self.moment_to is None else min(self.moment_to, moment)

    def _take_key(self, one: Any) -> None:
        if isinstance(one, EQUAL) and _is_exact(one.value):
            self._narrow_keys({one.value})
        elif isinstance(one, In) and all(_is_exact(value) for value in one.value):
            self._narrow_keys(set(one.value))
        elif isinstance(one, StringStartsWith) and self.routing_key_prefixes is None and _is_exact(one.value):
            self.routing_key_prefixes = (one.value.encode(),)

    def _narrow_keys(self, keys: set[str]) -> None:
        octets = frozenset(key.encode() for key in keys)
        self.routing_keys = octets if self.routing_keys is None else self.routing_keys & octets


def _is_exact(value: Any) -> bool:
    """Whether a text stands for just one sequence of octets: what is no UTF-8 in a key is U+FFFD in its row."""
    return isinstance(value, str) and "\ufffd" not in value


def _moment(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        # One without a zone is in that of this machine.
        return value.astimezone(UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None
