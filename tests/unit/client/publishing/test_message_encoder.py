"""Messages made ready to be sent: ids, addresses and properties, also those that are not encoded again."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.client.message import Message
from leveret.client.publishing.message_encoder import ADDRESSES_MAX, TEMPLATES_MAX, MessageEncoder
from leveret.core.client.outgoing import Outgoing
from leveret.core.codec.properties import parse_properties


def fields(message: Outgoing) -> dict[str, Any]:
    return parse_properties(message.raw).fields()


def test_every_message_has_an_id_of_its_own() -> None:
    encoder = MessageEncoder(routing_key="q")
    made = [encoder.plain(b"x"), encoder.make(b"x"), encoder.make("x"), encoder.make(b"x", headers={"a": 1})]
    ids = [message.message_id.decode() for message in made]
    assert len(set(ids)) == 4 and ids == sorted(ids)
    assert [fields(message)["message_id"] for message in made] == ids
    other = MessageEncoder().make(b"").message_id.decode()
    assert other.rpartition("-")[0] != ids[0].rpartition("-")[0]


def test_defaults_and_what_a_message_says_itself() -> None:
    encoder = MessageEncoder("shop", "orders", True, {"app_id": "till", "delivery_mode": 1})
    plain = encoder.make("text")
    assert (plain.exchange(), plain.routing_key(), plain.bits) == ("shop", "orders", 1)
    assert {**fields(plain), "message_id": ""} == {
        "app_id": "till",
        "delivery_mode": 1,
        "content_type": "text/plain",
        "message_id": "",
    }
    other = encoder.make(
        "text", "", "q", False, {"h": 1}, "mine", {"delivery_mode": 2, "app_id": None, "content_type": "text/html"}
    )
    assert (other.exchange(), other.routing_key(), other.bits) == ("", "q", 0)
    assert fields(other) == {"delivery_mode": 2, "content_type": "text/html", "headers": {"h": 1}, "message_id": "mine"}


def test_messages_are_persistent_unless_told_otherwise() -> None:
    assert fields(MessageEncoder().make(b""))["delivery_mode"] == 2


def test_the_same_again_is_equal_but_for_the_id() -> None:
    encoder = MessageEncoder()
    for properties in ({}, {"priority": 4}, {"type": "a", "correlation_id": "b"}):
        first, second = (fields(encoder.make(b"", properties=properties)) for _ in range(2))
        assert first.pop("message_id") != second.pop("message_id")
        assert first == second


def test_ids_that_users_give() -> None:
    encoder = MessageEncoder()
    for given in ("a", "a-much-longer-one", "ümläut"):
        message = encoder.make(b"", message_id=given, properties={"type": "t"})
        assert fields(message) == {"message_id": given, "type": "t", "delivery_mode": 2}
        assert message.message_id == given.encode()


@pytest.mark.parametrize("given", ["", "x" * 256, 17])
def test_ids_that_cannot_be(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="message_id"):
        MessageEncoder().make(b"", message_id=given)


def test_without_numbers_there_is_an_id_only_if_given() -> None:
    encoder = MessageEncoder(numbered=False)
    assert "message_id" not in fields(encoder.make(b""))
    assert "message_id" not in fields(encoder.plain(b""))
    assert "message_id" not in fields(encoder.make(b"", headers={"a": 1}))
    assert fields(encoder.make(b"", message_id="7"))["message_id"] == "7"


def test_deduplication_header_is_the_id() -> None:
    encoder = MessageEncoder(deduplicate=True)
    for message in (
        encoder.plain(b""),
        encoder.make(b"", headers={"a": 1}),
        encoder.make(b"", message_id="7"),
        encoder.make(b"", properties={"priority": 1}),
    ):
        found = fields(message)
        assert found["headers"]["x-deduplication-header"] == found["message_id"] == message.message_id.decode()
    own = encoder.make(b"", headers={"x-deduplication-header": "mine"})
    assert fields(own)["headers"] == {"x-deduplication-header": "mine"}


def test_publishing_ids_grow_over_restarts() -> None:
    first, second = MessageEncoder(publishing_name="till"), MessageEncoder(publishing_name="till")
    numbers = []
    for encoder in (first, second):
        for _ in range(3):
            headers = fields(encoder.plain(b""))["headers"]
            assert headers["x-producer-name"] == "till"
            numbers.append(headers["x-publishing-id"])
    assert numbers[:3] == sorted(set(numbers[:3])) and numbers[3:] == sorted(set(numbers[3:]))
    assert numbers[3] > numbers[0]


def test_what_is_remembered_is_bounded() -> None:
    encoder = MessageEncoder()
    for number in range(ADDRESSES_MAX + TEMPLATES_MAX):
        message = encoder.make(b"", routing_key=f"k{number}", properties={"type": f"t{number}"})
        assert message.routing_key() == f"k{number}" and fields(message)["type"] == f"t{number}"
        encoder.make(b"", message_id="x", properties={"type": f"t{number}"})
    assert len(encoder._addresses) <= ADDRESSES_MAX
    assert len(encoder._around) <= TEMPLATES_MAX and len(encoder._templates) <= TEMPLATES_MAX


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exchange", {"exchange": "x" * 256}),
        ("routing_key", {"routing_key": "x" * 256}),
        ("routing_key", {"routing_key": 5}),
        ("headers", {"headers": [1]}),
        ("expiration", {"properties": {"expiration": [1]}}),
        ("priority", {"properties": {"priority": 300}}),
    ],
)
@pytest.mark.parametrize("deduplicate", [False, True])
def test_what_is_wrong_is_refused_by_name(name: str, arguments: dict[str, Any], deduplicate: bool) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        MessageEncoder(deduplicate=deduplicate).make(b"", **arguments)


def test_wrong_defaults_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="priority"):
        MessageEncoder(defaults={"priority": 1000})
    with pytest.raises(TypeError, match="windoww"):
        MessageEncoder(defaults={"windoww": 1000})


def test_from_a_message() -> None:
    made = MessageEncoder("shop", "k").make_from(Message({"a": 1}, routing_key="other", priority=2, mandatory=False))
    assert (made.exchange(), made.routing_key(), made.bits, made.body) == ("shop", "other", 0, b'{"a":1}')
    assert fields(made)["priority"] == 2 and fields(made)["content_type"] == "application/json"
