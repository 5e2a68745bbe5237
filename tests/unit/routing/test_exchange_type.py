"""The alternate-exchange argument, which all exchange types share, in RabbitMQ 3.10.8's words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from leveret.core.codec.tables import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.errors import SoftError
from leveret.routing.exchange_type import text_argument
from leveret.routing.registry import EXCHANGE_TYPE_NAMES, exchange_type

# What a type cannot do without.
NEEDED = {"x-delayed-message": {"x-delayed-type": "direct"}, "x-message-deduplication": {"x-cache-size": 10}}


@pytest.mark.parametrize("name", EXCHANGE_TYPE_NAMES)
def test_the_alternate_exchange_is_a_string_for_every_type(name: str) -> None:
    kind, needed = exchange_type(name), NEEDED.get(name, {})
    kind.validate_arguments(needed)
    # The exchange need not exist, and unknown arguments are ignored.
    kind.validate_arguments({"alternate-exchange": "nowhere", "x-unknown": [1], **needed})
    kind.validate_arguments({"alternate-exchange": "", **needed})
    with pytest.raises(SoftError) as caught:
        kind.validate_arguments({"alternate-exchange": 5, **needed}, "exchange 'aex' in vhost '/'")
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'aex' in vhost '/'"
    )


@pytest.mark.parametrize("name", EXCHANGE_TYPE_NAMES)
@pytest.mark.parametrize(
    ("argument", "value"), [("x-message-deduplication", 1), ("x-cache-size", 0), ("x-cache-ttl", "soon")]
)
def test_what_says_how_to_deduplicate_is_checked_for_every_type(name: str, argument: str, value: Any) -> None:
    with pytest.raises(SoftError, match=f"invalid arg '{argument}' for exchange 'x' in vhost '/': "):
        exchange_type(name).validate_arguments({**NEEDED.get(name, {}), argument: value}, "exchange 'x' in vhost '/'")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "void"),
        (True, "bool"),
        (b"x", "binary"),
        (["x"], "array"),
        ({"x": 1}, "table"),
        (2**40, "long"),
        (-(2**31), "signedint"),
        (Int64(1), "long"),
        (Int8(1), "byte"),
        (UInt8(1), "unsignedbyte"),
        (Int16(1), "short"),
        (UInt16(1), "unsignedshort"),
        (UInt32(1), "unsignedint"),
        (Timestamp(1), "timestamp"),
        (1.5, "double"),
        (Float32(1.5), "float"),
        (Decimal("1.5"), "decimal"),
    ],
)
def test_other_types_are_named_as_rabbitmq_names_them(value: Any, shown: str) -> None:
    with pytest.raises(SoftError) as caught:
        text_argument({"arg": value}, "arg")
    assert caught.value.text == f"invalid type '{shown}' for arg 'arg'"


def test_a_string_is_given_and_a_missing_one_is_none() -> None:
    assert text_argument({"arg": "x"}, "arg") == "x"
    assert text_argument({}, "arg") is None
