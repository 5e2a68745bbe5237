"""Who the broker takes the caller for."""

from __future__ import annotations

from typing import Any

from leveret.management.http.request import Request
from leveret.management.http.route import Login, route


@route("GET", "/api/whoami", Login.USER, "Name and tags of the caller")
def whoami(request: Request) -> dict[str, Any]:
    return {"name": request.who.name, "tags": list(request.who.tags)}
