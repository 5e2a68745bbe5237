"""Lists as RabbitMQ's API gives them: filtered by name, sorted, cut into pages, with chosen columns.

A broker may have tens of thousands of queues, and everything runs in its one loop. So a list is filtered and sorted by
what is cheap to know, cut, and only then are the things on the page described; and long work is done in slices, between
which the broker's clients have their turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import Any, Generic, TypeVar

from msgspec import Raw

from leveret.catalog.patterns import NAME_CHARACTERS_MAX, compile_pattern
from leveret.management.http.errors import HttpError, bad_request
from leveret.management.http.json import encode
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter
from leveret.runtime.time_slice import TimeSlice

T = TypeVar("T")

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500
# How long all names together may take to be matched.
MATCH_BUDGET_S = 0.1
# How many things may be described before the clock is looked at.
LOOK_EVERY = 4
# How many cheap columns may be read before that.
TAKEN_AT_ONCE = 512
# Up to here the first of a list are found without sorting all of it.
FEW = 1000
NUMBERS = {int, float, bool}
# What gathers of a long list before it is sent.
PIECE_BYTES = 65536
# Each is looked up in each thing.
COLUMNS_MAX = 256

LIST_PARAMETERS = (
    Parameter("page", "Which page; turns the list into an envelope with items.", {"type": "integer", "minimum": 1}),
    Parameter("page_size", "Items on a page.", {"type": "integer", "minimum": 1, "maximum": PAGE_SIZE_MAX}),
    Parameter("name", "Only what has this in its name."),
    Parameter("use_regex", "The name is a regular expression.", {"type": "boolean"}),
    Parameter("sort", "The column to sort by, such as messages or message_stats.publish_details.rate."),
    Parameter("sort_reverse", "Largest first.", {"type": "boolean"}),
    Parameter("columns", "Only these columns, separated by commas."),
)


@dataclass(frozen=True)
class Listed(Generic[T]):
    """How things of one kind are listed."""

    describe: Callable[[Request, T], dict[str, Any]]
    name: Callable[[T], str]
    # Columns that are known without describing the thing.
    cheap: Mapping[str, Callable[[T], Any]] = field(default_factory=dict)


async def gathered(things: Iterable[T]) -> list[T]:
    """A list as it is; what is not a list is gone through in slices, so it must bear that the broker changes between
    two of its things."""
    if isinstance(things, list):
        return things
    found: list[T] = []
    turn = TimeSlice()
    for count, thing in enumerate(things):
        found.append(thing)
        if count % LOOK_EVERY == 0:
            await turn.rest()
    return found


async def shown(things: Iterable[T], describe: Callable[[T], dict[str, Any]]) -> list[Raw]:
    """All of them as JSON, made in slices: for what belongs to one thing, and has no pages."""
    found: list[Raw] = []
    turn = TimeSlice()
    for count, thing in enumerate(things):
        found.append(Raw(encode(describe(thing))))
        if count % LOOK_EVERY == 0:
            await turn.rest()
    return found


async def listed(request: Request, things: Iterable[T], kind: Listed[T]) -> Answer:
    """The answer to a request for a list; what of it the query asks for."""
    everything = await gathered(things)
    columns = _columns(request)
    page = _page(request)
    chosen = await _filtered(request, everything, kind)
    chosen_count = len(chosen)
    chosen = await _sorted(request, chosen, kind, len(chosen) if page is None else page[0] * page[1])
    if page is None:
        pieces = _pieces(request, chosen, kind, columns)
        # What goes wrong can be told as long as nothing was sent; a short list is done by then.
        return Answer(body=_resumed(await anext(pieces), pieces))
    number, size = page
    if number > 1 and (number - 1) * size >= chosen_count:
        raise HttpError(
            400,
            "page_out_of_range",
            f"Page out of range, page: {number} page size: {size}, len: {len(everything)}",
        )
    on_page = chosen[(number - 1) * size : number * size]
    describe = _describer(request, kind, columns)
    described = []
    turn = TimeSlice()
    for count, thing in enumerate(on_page):
        described.append(Raw(encode(describe(thing))))
        if count % LOOK_EVERY == 0:
            await turn.rest()
    return Answer(
        body={
            "filtered_count": chosen_count,
            "item_count": len(described),
            "items": described,
            "page": number,
            "page_count": max(1, -(-chosen_count // size)),
            "page_size": size,
            "total_count": len(everything),
        }
    )


def one(request: Request, described: dict[str, Any]) -> dict[str, Any]:
    """A single thing, with the columns that the query asks for."""
    return only(_columns(request), described)


# ---- what the query says


def _page(request: Request) -> tuple[int, int] | None:
    given = request.query.get("page")
    if given is None:
        return None
    try:
        number = int(given)
        size = int(request.query.get("page_size", PAGE_SIZE))
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        raise HttpError(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, page size {size}",
        )
    return number, size


def _columns(request: Request) -> list[list[str]]:
    names = dict.fromkeys(name for name in request.query.get("columns", "").split(",") if name)
    if len(names) > COLUMNS_MAX:
        raise bad_request(f"columns names more than {COLUMNS_MAX} columns")
    return [name.split(".") for name in names]


def only(columns: list[list[str]], described: dict[str, Any]) -> dict[str, Any]:
    """The chosen columns; a.b is b within a. All if none is chosen."""
    if not columns:
        return described
    kept: dict[str, Any] = {}
    for path in columns:
        source: Any = described
        for part in path:
            source = source.get(part, _MISSING) if isinstance(source, dict) else _MISSING
        if source is _MISSING:
            continue
        place = kept
        for part in path[:-1]:
            inner = place.get(part)
            if not isinstance(inner, dict):
                inner = place[part] = {}
            place = inner
        place[path[-1]] = source
    return kept


_MISSING = object()


# ---- filtering and sorting


async def _filtered(request: Request, things: list[T], kind: Listed[T]) -> list[T]:
    wanted = request.query.get("name", "")
    if not wanted:
        return things
    if not request.flag("use_regex"):
        return await _containing(things, wanted.casefold(), kind)
    try:
        pattern = compile_pattern(wanted)
    except ValueError as error:
        raise bad_request(f"name is no regular expression that can be used: {error}") from None
    kept: list[T] = []
    turn = TimeSlice()
    for thing in things:
        if pattern.found_in(kind.name(thing)[:NAME_CHARACTERS_MAX]):
            kept.append(thing)
        # Each may take as long as all of them ought to.
        if turn.is_over:
            await turn.rest()
            if turn.spent_s > MATCH_BUDGET_S:
                raise bad_request("name is a regular expression that takes too long")
    return kept


async def _containing(things: list[T], folded: str, kind: Listed[T]) -> list[T]:
    kept: list[T] = []
    name_of = kind.name
    turn = TimeSlice()
    for start in range(0, len(things), TAKEN_AT_ONCE):
        kept += [thing for thing in things[start : start + TAKEN_AT_ONCE] if folded in name_of(thing).casefold()]
        await turn.rest()
    return kept


async def _sorted(request: Request, things: list[T], kind: Listed[T], count: int) -> list[T]:
    """The first so many of them, in the order that is asked for; or more."""
    column = request.query.get("sort", "")
    reverse = request.flag("sort_reverse")
    if not column:
        return things[::-1] if reverse else things
    value_of = kind.cheap.get(column)
    if value_of is None:
        value_of = await _described_values(request, things, kind, column.split("."))
    values: list[Any] = []
    turn = TimeSlice()
    for start in range(0, len(things), TAKEN_AT_ONCE):
        values.extend(map(value_of, things[start : start + TAKEN_AT_ONCE]))
        await turn.rest()
    # Mostly they are all numbers or all texts, which compare fastest as they are.
    kinds = set(map(type, values))
    if not (kinds <= NUMBERS or kinds == {str}):
        values = list(map(_order, values))
    if count <= min(FEW, len(values) // 4):
        places = await _first_places(values, count, reverse)
    else:
        places = sorted(range(len(things)), key=values.__getitem__, reverse=reverse)
    return [things[place] for place in places]


async def _first_places(values: list[Any], count: int, reverse: bool) -> list[int]:
    """Where the first so many are, in the order in which sorting all of them would put them."""
    first = nlargest if reverse else nsmallest
    places: list[int] = []
    turn = TimeSlice()
    step = max(TAKEN_AT_ONCE, 2 * count)
    for start in range(0, len(values), step):
        places = first(count, (*places, *range(start, min(start + step, len(values)))), key=values.__getitem__)
        await turn.rest()
    return places


async def _described_values(request: Request, things: list[T], kind: Listed[T], path: list[str]) -> Callable[[T], Any]:
    values: dict[int, Any] = {}
    turn = TimeSlice()
    for count, thing in enumerate(things):
        value: Any = kind.describe(request, thing)
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        values[id(thing)] = value
        if count % LOOK_EVERY == 0:
            await turn.rest()
    return lambda thing: values[id(thing)]


def _order(value: Any) -> tuple[int, Any]:
    """Values of different kinds do not compare: what is missing comes first, then numbers, texts, the rest."""
    if value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    if isinstance(value, str):
        return 2, value
    return 3, encode(value)


# ---- lists that may be long


def _describer(request: Request, kind: Listed[T], columns: list[list[str]]) -> Callable[[T], dict[str, Any]]:
    """Describes a thing by the chosen columns; without looking at all of it, if they are cheap."""
    cheap = {path[0]: kind.cheap[path[0]] for path in columns if len(path) == 1 and path[0] in kind.cheap}
    if columns and len(cheap) == len(columns):
        return lambda thing: {name: read(thing) for name, read in cheap.items()}
    return lambda thing: only(columns, kind.describe(request, thing))


async def _resumed(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        await rest.aclose()


async def _pieces(
    request: Request, things: list[T], kind: Listed[T], columns: list[list[str]]
) -> AsyncGenerator[bytes, None]:
    """The whole list as JSON, a slice at a time."""
    describe = _describer(request, kind, columns)
    buffer = bytearray(b"[")
    turn = TimeSlice()
    for count, thing in enumerate(things):
        if count:
            buffer += b","
        buffer += encode(describe(thing))
        if count % LOOK_EVERY == 0 and turn.is_over:
            if len(buffer) >= PIECE_BYTES:
                yield bytes(buffer)
                buffer.clear()
            await turn.rest()
    buffer += b"]"
    yield bytes(buffer)
