"""Publishing in the words of other clients: publish(exchange, routing_key, content, properties), by position.

Ours is publish(body, routing_key=..., ...). Which of the two is meant shows by whether there is a content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from leveret.client.message import Body, Message, MessageProperties

__all__ = ["NOT_GIVEN", "as_named"]

# A content may be anything, None too.
NOT_GIVEN: Final[Any] = object()


def as_named(
    body: Body | Message,
    content: Body,
    exchange: str | None,
    headers: Mapping[str, Any] | None,
    message_id: str | None,
    properties: Mapping[str, Any] | None,
    named: MessageProperties,
) -> tuple[Body | Message, str | None, Mapping[str, Any] | None, str | None, MessageProperties]:
    """Body, exchange, headers, message id and the other properties. What is given by name counts before what stands in
    `properties`."""
    if content is not NOT_GIVEN:
        if exchange is None:
            if not isinstance(body, str):
                raise TypeError(f"publish(exchange, routing_key, content): the exchange is {body!r}, not a text")
            exchange = body
        elif body != b"":
            raise TypeError("publish takes a body or a content, not both")
        body = content
    if properties is not None:
        given: dict[str, Any] = {**properties, **named}
        in_headers, in_id = given.pop("headers", None), given.pop("message_id", None)
        headers = in_headers if headers is None else headers
        message_id = in_id if message_id is None else message_id
        named = cast("MessageProperties", given)
    return body, exchange, headers, message_id, named
