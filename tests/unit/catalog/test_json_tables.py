"""JSON that becomes a table of AMQP."""

import pytest

from leveret.catalog.json_tables import is_text, kept_bytes, table_from_json
from leveret.core.codec.field_types import Int64


def test_whole_numbers_have_64_bits() -> None:
    made = table_from_json({"a": 1, "b": 2**40, "c": [True, 1.5, "x", {"d": -1}]})
    assert made == {"a": 1, "b": 2**40, "c": [True, 1.5, "x", {"d": -1}]}
    assert type(made["a"]) is Int64
    assert type(made["b"]) is int
    assert type(made["c"][3]["d"]) is Int64
    assert type(made["c"][0]) is bool


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_an_empty_list_is_an_empty_table(nothing: object) -> None:
    assert table_from_json(nothing) == {}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("text", "must be an object"),
        ([1], "must be an object"),
        ({"a": None}, "a is null"),
        ({"a": {"b": [None]}}, "a.b is null"),
        ({"a": 2**63}, "a does not fit in 64 bits"),
        ({"x" * 256: 1}, "256 bytes of at most 255"),
        ({"a": "\ud800"}, "a is no valid text"),
        ({"a": "x" * 200_000}, "larger than"),
    ],
)
def test_what_no_table_takes_is_refused(value: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        table_from_json(value)


def test_what_the_log_cannot_hold() -> None:
    assert kept_bytes({"a": [1, None, 1.5]}) < 20
    for value in ({"a": "\ud800"}, [10**30], {"\udcff": 1}):
        with pytest.raises(ValueError, match="it holds"):
            kept_bytes(value)


def test_half_of_a_pair_is_no_text() -> None:
    assert is_text("ä\U0001f600")
    assert not is_text("\udc00")
    assert not is_text(5)
