"""How values look in error texts: as RabbitMQ's Erlang shows them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.core.codec.wording import frame_problem, shown_octets, shown_type, shown_value


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (0, "signedint"),
        (-(2**31), "signedint"),
        (2**31 - 1, "signedint"),
        (2**31, "long"),
        (-(2**31) - 1, "long"),
        (Int8(1), "byte"),
        (UInt8(1), "unsignedbyte"),
        (Int16(1), "short"),
        (UInt16(1), "unsignedshort"),
        (UInt32(1), "unsignedint"),
        (Int64(1), "long"),
        (Timestamp(1), "timestamp"),
        (Float32(1), "float"),
        (1.0, "double"),
        (Decimal(1), "decimal"),
        ("text", "longstr"),
        (b"octets", "binary"),
        ([], "array"),
        ({}, "table"),
        (None, "void"),
    ],
)
def test_every_field_type_has_rabbitmqs_name(value: Any, name: str) -> None:
    assert shown_type(value) == name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (-5, "-5"),
        (True, "true"),
        (False, "false"),
        (None, "undefined"),
        ("text", '<<"text">>'),
        (b"octets", '<<"octets">>'),
        (Timestamp(7), "7"),
        (1.5, "1.5"),
        (Decimal("-1.25"), "{2,-125}"),
        (Decimal("7"), "{0,7}"),
        ([], "[]"),
        ([1, "a"], '[{signedint,1},{longstr,<<"a">>}]'),
        ({"k": 1, "n": {"x": None}}, '[{<<"k">>,signedint,1},{<<"n">>,table,[{<<"x">>,void,undefined}]}]'),
    ],
)
def test_values_look_like_erlang_terms(value: Any, text: str) -> None:
    assert shown_value(value) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"", "<<>>"),
        (b"plain", '<<"plain">>'),
        (b'quote " and \\', '<<"quote \\" and \\\\">>'),
        (b"line\nend\ttab\x1b", '<<"line\\nend\\ttab\\e">>'),
        (b"\x00\x01", "<<0,1>>"),
        (b"a\x7f", "<<97,127>>"),
        (b"\x80", "<<128>>"),
        ("größe".encode(), "<<103,114,195,182,195,159,101>>"),
        ("für".encode(), '<<"für">>'),
    ],
)
def test_octets_are_text_where_erlang_takes_them_for_text(octets: bytes, text: str) -> None:
    assert shown_octets(octets) == text


def test_a_frame_problem_names_type_octets_and_reason() -> None:
    assert frame_problem(1, b"ab", "unknown_frame") == 'type 1, all octets = <<"ab">>: unknown_frame'
    assert frame_problem(3, b"") == "type 3, all octets = <<>>"


def test_a_frame_problem_never_shows_more_of_a_frame_than_a_reply_text_holds() -> None:
    assert len(frame_problem(1, bytes(10_000_000))) < 1000
