"""The consistent hash exchange type: weights and what is hashed, in the words of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.matching.hash_matcher import ConsistentHashMatcher
from leveret.errors import SoftError
from leveret.routing.consistent_hash import HASH_PROPERTIES, WEIGHT_MAX, ConsistentHash


def refusal(key: str) -> str:
    with pytest.raises(SoftError) as caught:
        ConsistentHash().validate_binding(key, {})
    assert caught.value.code == 406
    return caught.value.text


@pytest.mark.parametrize("key", ["1", "10", "+5", "007", str(WEIGHT_MAX)])
def test_weights_that_are_taken(key: str) -> None:
    ConsistentHash().validate_binding(key, {})
    # And core reads them the same way.
    matcher = ConsistentHash().matcher({}, lambda count: 0)
    destination = type("Destination", (), {"name": b"orders"})()
    matcher.add(key.encode(), {}, destination)
    assert matcher.count == 1


@pytest.mark.parametrize("key", ["0", "-1", "-0", "+0"])
def test_a_weight_is_at_least_one(key: str) -> None:
    assert refusal(key) == "The binding key must be greater than 0"


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("abc", '<<"abc">>'),
        ("", "<<>>"),
        ("1.5", '<<"1.5">>'),
        (" 5", '<<" 5">>'),
        ("1_000", '<<"1_000">>'),
        ("5\n", '<<"5\\n">>'),
    ],
)
def test_a_weight_is_a_whole_number(key: str, shown: str) -> None:
    assert refusal(key) == f"The binding key must be an integer: {shown}"


def test_digits_of_other_scripts_are_no_weight() -> None:
    assert refusal("\u0665").startswith("The binding key must be an integer: ")


@pytest.mark.parametrize("key", [str(WEIGHT_MAX + 1), "9" * 255])
def test_a_weight_has_a_limit(key: str) -> None:
    assert refusal(key) == f'The binding key must not be greater than 1000: <<"{key}">>'


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "h", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "foo"}, "Unsupported property: foo"),
        ({"hash-property": "message-id"}, "Unsupported property: message-id"),
        # RabbitMQ falls over these with a 541.
        ({"hash-header": 5}, "invalid type 'signedint' for arg 'hash-header' in exchange 'x' in vhost '/'"),
        ({"hash-property": None}, "invalid type 'void' for arg 'hash-property' in exchange 'x' in vhost '/'"),
    ],
)
def test_what_cannot_be_hashed(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(SoftError) as caught:
        ConsistentHash().validate_arguments(arguments, "exchange 'x' in vhost '/'")
    assert (caught.value.code, caught.value.text) == (406, text)


@pytest.mark.parametrize("name", HASH_PROPERTIES)
def test_properties_that_are_hashed(name: str) -> None:
    arguments = {"hash-property": name, "alternate-exchange": "ae"}
    ConsistentHash().validate_arguments(arguments)
    matcher = ConsistentHash().matcher(arguments, lambda count: 0)
    assert isinstance(matcher, ConsistentHashMatcher)
    assert (matcher.hash_header, matcher.hash_property, matcher.by_key_only) == (None, name, False)


def test_a_header_that_is_hashed() -> None:
    ConsistentHash().validate_arguments({"hash-header": ""})
    matcher = ConsistentHash().matcher({"hash-header": "customer"}, lambda count: 0)
    assert isinstance(matcher, ConsistentHashMatcher)
    assert (matcher.hash_header, matcher.hash_property, matcher.by_key_only) == ("customer", None, False)
