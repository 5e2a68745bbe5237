"""Lists: filtered, sorted, cut and described, in that order."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leveret.management.http.errors import HttpError
from leveret.management.http.json import encode
from leveret.management.http.lists import Listed, listed, only
from leveret.management.http.request import Answer, Request


@dataclass
class Thing:
    name: str
    size: int


THINGS = [Thing("b", 2), Thing("a", 3), Thing("Ab", 1), Thing("c", 2)]


class Recorder:
    """Describes things and says whom it was asked for."""

    def __init__(self) -> None:
        self.described: list[str] = []

    def describe(self, ask: Request, thing: Thing) -> dict[str, Any]:
        self.described.append(thing.name)
        return {"name": thing.name, "size": thing.size, "inner": {"twice": thing.size * 2, "x": None}}


def ask(**query: str) -> Request:
    return Request(cast(Any, None), cast(Any, None), "", "GET", {}, query)


def answer(recorder: Recorder | None = None, things: list[Thing] = THINGS, **query: str) -> Any:
    recorder = recorder or Recorder()

    async def run() -> Any:
        made: Answer = await listed(
            ask(**query),
            things,
            Listed(recorder.describe, lambda thing: thing.name, {"size": lambda thing: thing.size}),
        )
        if isinstance(made.body, dict):
            return json.loads(encode(made.body))
        return json.loads(b"".join([piece async for piece in made.body]))

    return asyncio.run(run())


def names(**query: str) -> list[str]:
    found = answer(**query)
    return [thing["name"] for thing in (found["items"] if isinstance(found, dict) else found)]


def refused(**query: str) -> HttpError:
    with pytest.raises(HttpError) as refusal:
        answer(**query)
    assert refusal.value.status == 400
    return refusal.value


def test_without_a_query_everything_comes_as_it_is() -> None:
    assert names() == ["b", "a", "Ab", "c"]
    assert answer(things=[]) == []


def test_a_page_is_an_envelope() -> None:
    assert answer(page="2", page_size="3", columns="name") == {
        "filtered_count": 4,
        "item_count": 1,
        "items": [{"name": "c"}],
        "page": 2,
        "page_count": 2,
        "page_size": 3,
        "total_count": 4,
    }
    empty = answer(page="1", name="nosuch")
    assert (empty["items"], empty["filtered_count"], empty["page_count"], empty["page_size"]) == ([], 0, 1, 100)


def test_pages_that_are_not_there_are_refused_in_rabbitmqs_words() -> None:
    assert refused(page="3", page_size="2").error == "page_out_of_range"
    assert refused(page="3", page_size="2").reason == "Page out of range, page: 3 page size: 2, len: 4"
    for query in ({"page": "0"}, {"page": "1", "page_size": "501"}, {"page": "1", "page_size": "0"}, {"page": "-1"}):
        assert refused(**query).error == "invalid_pagination_parameters"
    assert refused(page="x").reason == "Pagination parameters are invalid"
    assert refused(page="1", page_size="x").reason == "Pagination parameters are invalid"


def test_names_are_filtered() -> None:
    assert names(name="a") == ["a", "Ab"]
    assert names(name="^a", use_regex="true") == ["a"]
    assert names(name="^(a|c)$", use_regex="true", page="1") == ["a", "c"]
    assert names(name=".", use_regex="false") == []


@pytest.mark.parametrize("pattern", ["(", "x" * 2000, r"(a)\1", "^.*.*" + "(?=.*" * 20 + ")" * 20])
def test_bad_patterns_are_refused(pattern: str) -> None:
    assert "regular expression" in str(refused(name=pattern, use_regex="true").reason)


def test_sorting() -> None:
    assert names(sort="name") == ["Ab", "a", "b", "c"]
    assert names(sort="size") == ["Ab", "b", "c", "a"]
    assert names(sort="size", sort_reverse="true") == ["a", "b", "c", "Ab"]
    assert names(sort="inner.twice") == ["Ab", "b", "c", "a"]
    assert names(sort="nosuch") == names(sort="inner.x") == ["b", "a", "Ab", "c"]


def test_only_what_is_on_the_page_is_described_if_the_column_is_cheap() -> None:
    recorder = Recorder()
    answer(recorder, page="1", page_size="1", sort="size", sort_reverse="true", name="a")
    assert recorder.described == ["a"]


def test_columns() -> None:
    assert answer(columns="name,inner.twice", name="b", page="1", page_size="1")["items"] == [
        {"name": "b", "inner": {"twice": 4}}
    ]
    assert only([["a", "b"], ["a", "c"], ["nosuch"], ["a", "b", "d"]], {"a": {"b": 1, "c": 2, "e": 3}}) == {
        "a": {"b": 1, "c": 2}
    }


def test_a_pattern_that_takes_too_long_is_given_up() -> None:
    names = ["".join("ab"[number >> bit & 1] for bit in range(16)) * 15 for number in range(2000)]
    things = [Thing(name, 0) for name in names]
    with pytest.raises(HttpError, match="too long"):
        answer(things=things, name="a.{0,40}b.{0,40}c|x", use_regex="true")


def test_others_have_their_turn_while_a_long_list_is_made() -> None:
    things = [Thing(str(number), number) for number in range(20_000)]
    longest = 0.0

    async def run() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        made = await listed(ask(sort="inner.twice"), things, Listed(Recorder().describe, lambda thing: thing.name))
        turns = 0
        before = loop.time()
        async for _ in made.body:
            turns += 1
            longest, before = max(longest, loop.time() - before), loop.time()
        assert turns > 3

    asyncio.run(run())
    # A slice is 4 ms; what the machine does meanwhile is not our doing.
    assert longest < 0.2


def test_cheap_columns_are_read_without_describing() -> None:
    recorder = Recorder()
    assert answer(recorder, columns="size") == [{"size": thing.size} for thing in THINGS]
    assert answer(recorder, columns="size", page="1", page_size="2")["items"] == [{"size": 2}, {"size": 3}]
    assert recorder.described == []
    assert answer(recorder, columns="size,name")[0] == {"size": 2, "name": "b"}
    assert recorder.described


@given(st.lists(st.integers(0, 9), min_size=4), st.integers(1, 3), st.integers(1, 8), st.booleans())
def test_a_page_is_cut_out_of_the_sorted_list(sizes: list[int], page: int, size: int, reverse: bool) -> None:
    """However few of the list are looked for; things of one size stay in their order."""
    things = [Thing(str(place), size) for place, size in enumerate(sizes * 3)]
    expected = sorted(things, key=lambda thing: thing.size, reverse=reverse)[(page - 1) * size : page * size]
    assume(expected)
    found = answer(things=things, sort="size", sort_reverse=str(reverse).lower(), page=str(page), page_size=str(size))
    assert [thing["name"] for thing in found["items"]] == [thing.name for thing in expected]
    assert found["filtered_count"] == len(things)
