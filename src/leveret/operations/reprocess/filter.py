"""Which messages a job means: a filter, checked and ready to be asked about each message."""

from __future__ import annotations

import math
from collections.abc import Callable

from leveret.catalog.patterns import NAME_CHARACTERS_MAX, Pattern, compile_pattern
from leveret.catalog.records import ReplayFilter
from leveret.core.codec.names import name_text
from leveret.errors import InvalidReplay
from leveret.operations.reprocess.letter import Letter
from leveret.queues.death import REASONS, Origin

HEADERS_MAX = 32
BODY_PART_BYTES_MAX = 4096
NAMES = ("queue", "exchange", "routing_key")
# What a header can be compared with; msgpack and JSON have these, too.
SCALARS = (str, int, float, bool, type(None))

Test = Callable[[Letter, int], bool]


class CompiledFilter:
    """Raises InvalidReplay if the filter cannot be used."""

    def __init__(self, given: ReplayFilter) -> None:
        _check_numbers(given)
        # The cheap ones first; all must say yes.
        self._tests: list[Test] = []
        if given.body_contains is not None:
            self._add_body(given.body_contains)
        self._add_headers(given)
        if given.replays_max is not None:
            replays_max = given.replays_max
            self._tests.append(lambda letter, _: letter.replay_count <= replays_max)
        self._add_age(given)
        self._add_deaths(given)
        if given.reason is not None:
            reason = given.reason
            if reason not in REASONS:
                raise InvalidReplay("filter.reason", f"{reason!r} is none of {', '.join(REASONS)}")
            self._tests.append(_of_origin(lambda origin: origin.reason == reason))
        for name in NAMES:
            self._add_name(name, getattr(given, name), getattr(given, f"{name}_pattern"))

    def matches(self, letter: Letter, now_ms: int) -> bool:
        return all(test(letter, now_ms) for test in self._tests)

    def _add_body(self, part: bytes) -> None:
        if len(part) > BODY_PART_BYTES_MAX:
            raise InvalidReplay("filter.body_contains", f"it is longer than {BODY_PART_BYTES_MAX} bytes")
        self._tests.append(lambda letter, _: part in letter.message.body)

    def _add_headers(self, given: ReplayFilter) -> None:
        if len(given.headers) > HEADERS_MAX:
            raise InvalidReplay("filter.headers", f"there are more than {HEADERS_MAX}")
        for name, wanted in given.headers.items():
            if not isinstance(wanted, SCALARS):
                raise InvalidReplay("filter.headers", f"the value of {name!r} is neither text nor a number nor true, "
                                    "false or null")  # fmt: skip
            self._tests.append(_has_header(name, wanted))

    def _add_age(self, given: ReplayFilter) -> None:
        least, most = given.age_s_min, given.age_s_max
        if least is not None:
            self._tests.append(lambda letter, now_ms: letter.age_s(now_ms) >= least)
        if most is not None:
            self._tests.append(lambda letter, now_ms: letter.age_s(now_ms) <= most)

    def _add_deaths(self, given: ReplayFilter) -> None:
        least, most = given.deaths_min, given.deaths_max
        if least is not None:
            self._tests.append(lambda letter, _: _deaths(letter) >= least)
        if most is not None:
            self._tests.append(lambda letter, _: _deaths(letter) <= most)

    def _add_name(self, field: str, exact: str | None, pattern: str | None) -> None:
        if exact is not None:
            self._tests.append(_of_origin(lambda origin: _name(origin, field) == exact))
        if pattern is not None:
            try:
                compiled: Pattern = compile_pattern(pattern)
            except ValueError as error:
                raise InvalidReplay(f"filter.{field}_pattern", str(error)) from None
            # Cut: it stands in a header, which any client may have written, and may be longer than any name.
            self._tests.append(_of_origin(lambda origin: compiled.found_in(_name(origin, field)[:NAME_CHARACTERS_MAX])))


def _check_numbers(given: ReplayFilter) -> None:
    for name in ("age_s_min", "age_s_max", "deaths_min", "deaths_max", "replays_max"):
        value = getattr(given, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise InvalidReplay(f"filter.{name}", f"{value} is not a number from 0 on")


def _has_header(name: str, wanted: object) -> Test:
    def test(letter: Letter, _now_ms: int) -> bool:
        headers = letter.properties.headers()
        if name not in headers:
            return False
        value = headers[name]
        # In a header as in JSON, true is no number.
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)

    return test


def _of_origin(test: Callable[[Origin], bool]) -> Test:
    """A test that nothing passes whose origin is not known."""
    return lambda letter, _now_ms: letter.origin is not None and test(letter.origin)


def _deaths(letter: Letter) -> int:
    return 0 if letter.origin is None else letter.origin.count


def _name(origin: Origin, field: str) -> str:
    if field == "queue":
        return origin.queue
    octets = origin.exchange if field == "exchange" else origin.routing_keys[0]
    return name_text(octets)
