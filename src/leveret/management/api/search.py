"""The search of `peek`: its parameters, read and checked, and the walk through a queue within declared bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from leveret.core.codec.names import name_octets
from leveret.management.http.errors import bad_request
from leveret.management.http.request import Request
from leveret.management.http.route import Parameter
from leveret.operations.browsing import COUNT_MAX, Seen
from leveret.operations.message_filter import BODY_PART_BYTES_MAX, CONDITIONS_MAX, MessageFilter
from leveret.runtime.time_slice import TimeSlice

# Messages that one request looks at, and octets of bodies among them.
SCAN_DEFAULT = 10_000
SCAN_MAX = 100_000
SCAN_BYTES_MAX = 256 * 1024 * 1024
# Of conditions as JSON; a request's line has about 8 KiB.
CONDITIONS_BYTES_MAX = 4096

SCANNED_HEADER = "Leveret-Scanned"
COMPLETE_HEADER = "Leveret-Complete"
PLACE_HEADER = "Leveret-Last-Position"

_OBJECT = f"a JSON object of at most {CONDITIONS_MAX} names with texts, numbers, true, false or null"
FILTERS = (
    Parameter("exchange", "Only messages that were published to this exchange; empty for the default one."),
    Parameter("routing_key", "Only messages with this routing key."),
    Parameter("headers", f"Only messages with these headers: {_OBJECT}."),
    Parameter("properties", f"Only messages with these properties: {_OBJECT}."),
    Parameter("body_contains", f"Only messages with this text in the body, at most {BODY_PART_BYTES_MAX} bytes."),
    Parameter(
        "scan",
        f"With a filter: how many messages are looked at. {SCAN_DEFAULT} without it; bodies of {SCAN_BYTES_MAX} bytes "
        f"at most. {SCANNED_HEADER} in the answer says how many were, {COMPLETE_HEADER} whether the end was reached, "
        f"{PLACE_HEADER} the position of the last one, behind which `after` goes on.",
        {"type": "integer", "minimum": 1, "maximum": SCAN_MAX},
    ),
)

# From how many messages were looked at, and how many are wanted, to these.
Page = Callable[[int, int], AsyncIterator[Any]]


def refuse_unknown(request: Request, known: tuple[Parameter, ...]) -> None:
    """A filter that is misspelt must not show everything."""
    names = [parameter.name for parameter in known]
    for name in request.query:
        if name not in names:
            raise bad_request(f"there is no parameter {name[:64]!r}; there are {', '.join(names)}")


def read_filter(request: Request) -> MessageFilter:
    made = MessageFilter(
        exchange=request.query.get("exchange"),
        routing_key=request.query.get("routing_key"),
        headers=_conditions(request, "headers"),
        properties=_conditions(request, "properties"),
        body_contains=name_octets(request.query.get("body_contains", "")),
    )
    problem = made.problem()
    if problem is not None:
        raise bad_request(problem)
    if made.is_empty and "scan" in request.query:
        raise bad_request("scan goes with a filter; count says how many messages are shown")
    return made


def _conditions(request: Request, name: str) -> dict[str, Any]:
    given = request.query.get(name)
    if given is None:
        return {}
    if len(given) > CONDITIONS_BYTES_MAX:
        raise bad_request(f"{name} is longer than {CONDITIONS_BYTES_MAX} characters")
    try:
        return msgspec.json.decode(given.encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise bad_request(f"{name} must be {_OBJECT}") from None


class Search:
    """One walk through a queue, page by page. `seen_of` gives the message of what a page has."""

    def __init__(self, wanted: MessageFilter, scan_max: int, seen_of: Callable[[Any], Seen]) -> None:
        self._wanted = wanted
        self._scan_max = scan_max
        self._seen_of = seen_of
        self.scanned = 0
        self.scanned_bytes = 0
        # Whether there is nothing behind what was looked at.
        self.complete = False
        self.last_place: int | None = None

    async def walk(self, page: Page) -> AsyncIterator[Any]:
        turn = TimeSlice()
        while not self._is_over:
            before = self.scanned
            async for found in page(self.scanned, min(COUNT_MAX, self._scan_max - self.scanned)):
                seen = self._seen_of(found)
                self.scanned += 1
                self.scanned_bytes += seen.body_size
                self.last_place = seen.place
                if await self._wanted.wants(seen, turn):
                    yield found
                await turn.rest()
                if self._is_over:
                    return
            if self.scanned == before:
                self.complete = True
                return

    @property
    def _is_over(self) -> bool:
        return self.scanned >= self._scan_max or self.scanned_bytes >= SCAN_BYTES_MAX

    def told(self) -> dict[str, str]:
        """Headers of the answer."""
        told = {SCANNED_HEADER: str(self.scanned), COMPLETE_HEADER: "true" if self.complete else "false"}
        return told if self.last_place is None else {**told, PLACE_HEADER: str(self.last_place)}
