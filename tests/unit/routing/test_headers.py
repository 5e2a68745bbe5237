"""The headers exchange type: what x-match may say, in the words of RabbitMQ 3.10.8."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from leveret.core.codec.tables import Timestamp
from leveret.errors import SoftError
from leveret.routing.headers import Headers


@pytest.mark.parametrize("x_match", ["all", "any", "all-with-x", "any-with-x"])
def test_the_four_kinds_are_taken(x_match: str) -> None:
    Headers().validate_binding("", {"x-match": x_match, "a": None})


def test_without_x_match_it_is_all() -> None:
    Headers().validate_binding("", {})


@pytest.mark.parametrize(
    ("x_match", "text"),
    [
        ("foo", 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ("ALL", 'value <<"ALL">>; expected all, any, all-with-x, or any-with-x'),
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        ('fo"o\\', 'value <<"fo\\"o\\\\">>; expected all, any, all-with-x, or any-with-x'),
        ("\u00e9", 'value <<"\u00e9">>; expected all, any, all-with-x, or any-with-x'),
        ("\x01", "value <<1>>; expected all, any, all-with-x, or any-with-x"),
        ("a\n", 'value <<"a\\n">>; expected all, any, all-with-x, or any-with-x'),
        ("\u00c0", "value <<195,128>>; expected all, any, all-with-x, or any-with-x"),
        (5, "type signedint (value 5); expected longstr"),
        (2**40, "type long (value 1099511627776); expected longstr"),
        (True, "type bool (value true); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        (1.5, "type double (value 1.5); expected longstr"),
        ([1], "type array (value [{signedint,1}]); expected longstr"),
        ({"a": 1}, 'type table (value [{<<"a">>,signedint,1}]); expected longstr'),
        (b"all", 'type binary (value <<"all">>); expected longstr'),
        (Decimal("1.5"), "type decimal (value {1,15}); expected longstr"),
        (Timestamp(1577836800), "type timestamp (value 1577836800); expected longstr"),
    ],
)
def test_anything_else_is_refused(x_match: Any, text: str) -> None:
    with pytest.raises(SoftError) as caught:
        Headers().validate_binding("", {"x-match": x_match})
    assert caught.value.reply_text == f"PRECONDITION_FAILED - Invalid x-match field {text}"
