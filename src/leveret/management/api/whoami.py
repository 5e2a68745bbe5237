"""Who the broker takes the caller for."""

from __future__ import annotations

from typing import Any

from leveret.management.http.ask import Ask
from leveret.management.http.route import Login, route


@route("GET", "/api/whoami", Login.USER, "Name and tags of the caller")
def whoami(ask: Ask) -> dict[str, Any]:
    return {"name": ask.who.name, "tags": list(ask.who.tags)}
