"""Makes messages ready to be sent: address, properties and id as octets.

Publishers repeat themselves, so addresses and properties that came before are not encoded again. Ids are all of one
length: a template is the octets around them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from leveret.client.message import Body, Message, check_headers, encode_body, written_properties
from leveret.core.client.outgoing import MANDATORY, Outgoing, make_address
from leveret.core.client.template import Template
from leveret.core.codec.names import name_octets, name_text

__all__ = ["MessageEncoder"]

ADDRESSES_MAX, TEMPLATES_MAX = 1024, 256
PERSISTENT = 2
DEDUPLICATION_HEADER = "x-deduplication-header"
PRODUCER_HEADER, PUBLISHING_HEADER = "x-producer-name", "x-publishing-id"
T = TypeVar("T")
NO_PROPERTIES: Mapping[str, Any] = {}


class MessageEncoder:
    """`defaults` are properties that every message has unless it says otherwise. With `numbered` a message that brings
    no id gets one: a prefix of our own and a counter."""

    def __init__(
        self,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = True,
        defaults: Mapping[str, Any] = NO_PROPERTIES,
        *,
        numbered: bool = True,
        deduplicate: bool = False,
        publishing_name: str | None = None,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self._bits: int = MANDATORY if mandatory else 0
        self._defaults = {"delivery_mode": PERSISTENT, **defaults}
        self._numbered = numbered
        self._deduplicate = deduplicate
        self._publishing_name = publishing_name
        # Whether something stands in the headers that differs from message to message.
        self._has_stamps = publishing_name is not None
        # Numbers that a stream knows a producer of this name by go on growing when the program is started again.
        self._first = time.time_ns() // 1000
        self.prefix = secrets.token_hex(5)
        self._octets = self.prefix.encode() + b"-%012x"
        self._placeholder = self._octets % 0
        self._count = 0
        self._addresses: dict[tuple[str, str], bytes] = {}
        # By content type and properties: the octets around an id, and templates for ids that users give.
        self._around: dict[Any, list[bytes]] = {}
        self._templates: dict[Any, Template] = {}
        self._address = self._find_address(exchange, routing_key)
        # Also tells whoever gave wrong defaults.
        self._around_plain = self._find_around(None, NO_PROPERTIES)

    def plain(self, octets: bytes) -> Outgoing:
        """The quickest way: everything but the body is as the producer has it."""
        if self._has_stamps or not self._numbered:
            return self.make(octets)
        self._count += 1
        message_id = self._octets % self._count
        return Outgoing(self._address, message_id.join(self._around_plain), octets, message_id, self._bits)

    def make(
        self,
        body: Body,
        exchange: str | None = None,
        routing_key: str | None = None,
        mandatory: bool | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        properties: Mapping[str, Any] = NO_PROPERTIES,
    ) -> Outgoing:
        octets, content_type = encode_body(body)
        if exchange is None and routing_key is None:
            address = self._address
        else:
            address = self._find_address(
                self.exchange if exchange is None else exchange,
                self.routing_key if routing_key is None else routing_key,
            )
        bits = self._bits if mandatory is None else MANDATORY if mandatory else 0
        number = self._count + 1
        if message_id is not None:
            identity = _octets_of(message_id)
        else:
            identity = self._octets % number if self._numbered else b""
        if headers is not None or self._has_stamps or (self._deduplicate and message_id is not None):
            raw = self._write(content_type, properties, headers, name_text(identity), number)
        elif message_id is None and self._numbered:
            raw = identity.join(self._find_around(content_type, properties))
        else:
            raw = self._find_template(content_type, properties).fill(identity)
        # Only now: what is refused leaves no gap.
        self._count = number
        return Outgoing(address, raw, octets, identity, bits)

    def make_from(self, message: Message) -> Outgoing:
        return self.make(
            message.body,
            message.exchange,
            message.routing_key,
            message.mandatory,
            message.headers,
            message.message_id,
            message.properties(),
        )

    # ---- what came before

    def _find_address(self, exchange: str, routing_key: str) -> bytes:
        found = self._addresses.get((exchange, routing_key))
        if found is None:
            for name, value in (("exchange", exchange), ("routing_key", routing_key)):
                if not isinstance(value, str):
                    raise TypeError(f"{name} is {value!r}, not a text")
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            found = self._addresses[exchange, routing_key] = make_address(exchange, routing_key)
        return found

    def _find_around(self, content_type: str | None, properties: Mapping[str, Any]) -> list[bytes]:
        key = (content_type, *properties.items())
        found = _known(self._around, key)
        if found is None:
            if len(self._around) >= TEMPLATES_MAX:
                self._around.clear()
            raw = self._write(content_type, properties, None, self._placeholder.decode(), 0)
            found = self._around[key] = raw.split(self._placeholder)
        return found

    def _find_template(self, content_type: str | None, properties: Mapping[str, Any]) -> Template:
        key = (content_type, *properties.items())
        found = _known(self._templates, key)
        if found is None:
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            raw = self._write(content_type, properties, None, "", 0)
            found = self._templates[key] = Template(raw)
        return found

    def _write(
        self,
        content_type: str | None,
        properties: Mapping[str, Any],
        headers: Mapping[str, Any] | None,
        message_id: str,
        number: int,
    ) -> bytes:
        fields = {**self._defaults, **properties}
        if fields.get("content_type") is None:
            fields["content_type"] = content_type
        check_headers(headers)
        if self._deduplicate and message_id:
            headers = {DEDUPLICATION_HEADER: message_id, **(headers or {})}
        if self._publishing_name is not None:
            headers = {
                **(headers or {}),
                PRODUCER_HEADER: self._publishing_name,
                PUBLISHING_HEADER: self._first + number,
            }
        return written_properties(fields, headers, message_id)


def _octets_of(message_id: str) -> bytes:
    if not isinstance(message_id, str):
        raise TypeError(f"message_id is {message_id!r}, not a text")
    if not message_id:
        raise ValueError("message_id is empty")
    octets = name_octets(message_id)
    if len(octets) > 255:
        raise ValueError(f"message_id has {len(octets)} bytes, more than 255")
    return octets


def _known(table: dict[Any, T], key: Any) -> T | None:
    try:
        return table.get(key)
    except TypeError:
        # A value that no property can have: it is about to be refused by its name.
        return None
