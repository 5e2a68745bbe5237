"""Headers as text, and back."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.header_text import headers_from_json, headers_to_json, value_text
from leveret.core.codec.field_types import Float32, Int8, Timestamp
from leveret.core.codec.tables import decode_table, encode_table

TAGS = ["!timestamp", "!bytes", "!decimal", "!float", "!table", "!text"]
# Octets that came as a text, whatever they are.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.binary(max_size=8).map(
    lambda octets: octets.decode("utf-8", "surrogateescape")
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(TAGS)
DECIMALS = st.builds(
    lambda number, scale: Decimal(number).scaleb(-scale), st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 255)
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | TEXTS
    | st.binary(max_size=8)
    | DECIMALS
    | st.integers(0, (1 << 64) - 1).map(Timestamp)
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4))


def shown(value: Any) -> Any:
    """A value so that equal means the same, also for what Python takes for equal or unequal."""
    if isinstance(value, dict):
        return {name: shown(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shown(inner) for inner in value]
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else float(value).hex())
    kind = Timestamp if isinstance(value, Timestamp) else bool if isinstance(value, bool) else int
    return (kind.__name__, int(value)) if isinstance(value, int) else (type(value).__name__, repr(value))


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_there_and_back(headers: dict[str, Any]) -> None:
    text = headers_to_json(headers)
    text.encode()
    again = headers_from_json(text)
    assert shown(again) == shown(headers)
    assert list(again) == list(headers)
    assert headers_to_json(again) == text


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_over_the_wire_and_back(headers: dict[str, Any]) -> None:
    """What a broker gives, as a text, and as a table again: the octets differ only where a number has another size."""
    table, _ = decode_table(encode_table(headers), 0)
    text = headers_to_json(table)
    again, _ = decode_table(encode_table(headers_from_json(text)), 0)
    assert headers_to_json(again) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("as it is", "as it is"),
        (True, "true"),
        (Int8(-3), "-3"),
        (Float32(0.5), "0.5"),
        (float("inf"), "inf"),
        (Decimal("1.50"), "1.50"),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (Timestamp((1 << 64) - 1), str((1 << 64) - 1)),
        (b"octets", "octets"),
        (b"\xff", "/w=="),
        ([1, "a", None], '[1, "a", null]'),
        ({"a": b"\xff"}, '{"a": {"!bytes": "/w=="}}'),
    ],
)
def test_one_value_as_text(value: Any, text: str | None) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "the headers are no JSON"),
        ("[" * 100_000, "the headers are no JSON"),
        ("[1]", "the headers' JSON is no object"),
        ('{"a": {"!timestamp": "soon"}}', "!timestamp"),
        ('{"a": {"!timestamp": null}}', "!timestamp"),
        ('{"a": {"!bytes": "?"}}', "!bytes"),
        ('{"a": {"!bytes": 5}}', "!bytes"),
        ('{"a": {"!text": [1]}}', "!text"),
        ('{"a": [{"!decimal": "much"}]}', "!decimal"),
        ('{"a": {"!float": {}}}', "!float"),
        ('{"a": {"!table": 1}}', "!table"),
    ],
)
def test_text_that_is_no_table(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        headers_from_json(text)


def test_any_json_object_will_do() -> None:
    given_by_hand = {"tenant": "a", "n": 1, "list": [1, 2.5, None], "deep": {"x": {"y": True}}}
    assert headers_from_json(json.dumps(given_by_hand)) == given_by_hand
