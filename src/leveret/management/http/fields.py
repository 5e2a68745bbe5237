"""Reading the bodies of requests: objects of JSON whose fields came as people and old tools write them.

rabbitmqadmin sends "true" for true and "5" for 5, so both are taken; everything else of the wrong kind is refused with
its name. Tables of AMQP become what a client would have sent for the same JSON."""

from __future__ import annotations

from typing import Any

from leveret.catalog.json_tables import is_text, table_from_json
from leveret.management.http.errors import HttpError, bad_request, keys_missing

INT64 = range(-(2**63), 2**63)
SHOWN_CHARACTERS_MAX = 64
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "")


class Fields:
    """One object out of a body."""

    def __init__(self, body: Any) -> None:
        """No body is an object without fields, as with RabbitMQ."""
        if isinstance(body, str):
            raise bad_request(
                "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
            )
        if body is not None and not isinstance(body, dict):
            raise bad_request("not_json")
        self.values: dict[str, Any] = body or {}

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def need(self, *names: str) -> None:
        """Refuses a body that lacks one of these, with all that it lacks."""
        missing = [name for name in names if name not in self.values]
        if missing:
            raise keys_missing(*missing)

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise wrong(name, value, "a text")
        return clean(name, value)

    def optional_text(self, name: str) -> str | None:
        return None if self.values.get(name) is None else self.text(name)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name, default)
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        raise bad_request(["not_boolean", _shown(value)])

    def integer(self, name: str, default: int | None = None, within: range = INT64) -> int:
        value = self.values.get(name, default)
        if isinstance(value, str):
            try:
                value = int(value) if len(value) <= 20 else None
            except ValueError:
                raise wrong(name, value, "a whole number") from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong(name, self.values.get(name), "a whole number")
        if value not in within:
            raise bad_request(f"{name} is {value}; it must be from {within.start} to {within.stop - 1}")
        return value

    def table(self, name: str) -> dict[str, Any]:
        """Arguments or headers. RabbitMQ writes a table without fields as [], and takes it back so."""
        try:
            return table_from_json(self.values.get(name))
        except ValueError as error:
            raise bad_request(f"{name}: {error}") from None

    def texts(self, name: str) -> list[str]:
        """A list of texts, or one text with commas."""
        value = self.values.get(name)
        if isinstance(value, str):
            return [part.strip() for part in clean(name, value).split(",") if part.strip()]
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise wrong(name, value, "a list of texts")
        return [clean(name, one) for one in value]

    def object(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise wrong(name, value, "an object")
        return value


def clean(name: str, value: str) -> str:
    if not is_text(value):
        raise bad_request(f"{name} is no valid text")
    return value


def wrong(name: str, value: Any, wanted: str) -> HttpError:
    # What was meant to be secret is not sent back, nor written into a log.
    shown = "of the wrong kind" if "password" in name else _shown(value)
    return bad_request(f"{name} is {shown}; it must be {wanted}")


def _shown(value: Any) -> str:
    return (value if isinstance(value, str) else repr(value))[:SHOWN_CHARACTERS_MAX]
