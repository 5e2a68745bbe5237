"""What a link changes in the properties of the messages that it forwards. The bodies go on as they came."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leveret.core.client.delivery import Delivery

__all__ = ["Edit", "prepended", "shovel_edit"]

# The octets of the properties to publish with, None to drop the message.
Edit = Callable[[Delivery], bytes | None]
SHOVELLED, SHOVELLED_TIMESTAMP = "x-shovelled", "x-shovelled-timestamp"
# How long a list of former links may grow before it is cut: peers write it.
ENTRIES_MAX = 100


def prepended(headers: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> list[Any]:
    """A header that is a list, the newest entry first."""
    before = headers.get(name)
    return [dict(entry), *(before if isinstance(before, list) else [])][:ENTRIES_MAX]


def shovel_edit(
    properties: Mapping[str, Any], entry: Mapping[str, Any] | None, now_s: Callable[[], int] | None
) -> Edit | None:
    """`properties` replace those of the message; `entry` is put before the others in x-shovelled; `now_s` stamps. None
    if nothing is to be changed."""
    if not properties and entry is None and now_s is None:
        return None
    fixed = {name: value for name, value in properties.items() if name != "headers"}
    own_headers: dict[str, Any] | None = properties.get("headers")

    def edit(delivery: Delivery) -> bytes:
        changes = dict(fixed)
        if own_headers is not None or entry is not None or now_s is not None:
            headers = dict(delivery.headers if own_headers is None else own_headers)
            if entry is not None:
                headers[SHOVELLED] = prepended(headers, SHOVELLED, entry)
            if now_s is not None:
                headers[SHOVELLED_TIMESTAMP] = now_s()
            changes["headers"] = headers
        raw: bytes = delivery.properties.replace(changes).raw
        return raw

    return edit
