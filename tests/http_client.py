"""A client of the management API for tests: plain requests, and the answers as they are."""

from __future__ import annotations

import base64
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Reply:
    status: int
    # Decoded if it is JSON, else octets; None if there is none.
    body: Any
    headers: dict[str, str]


def name(text: str) -> str:
    """A name as it stands in a path."""
    return quote(text, safe="")


class Api:
    """`target` is a leveret.testing.Broker or the address of an API, such as http://127.0.0.1:15672."""

    def __init__(
        self, target: Any, user: str | None = "guest", password: str = "guest", token: str | None = None
    ) -> None:
        self._url = target if isinstance(target, str) else target.management_url
        self.headers: dict[str, str] = {}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"
        elif user is not None:
            credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
            self.headers["Authorization"] = f"Basic {credentials}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        decoded: bool = True,
    ) -> Reply:
        """`path` is below /api, unless it begins with a second slash: //health/live."""
        place = urlsplit(self._url)
        assert place.hostname is not None
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=TIMEOUT_S)
        try:
            octets = raw if raw is not None else None if body is None else json.dumps(body).encode()
            sent = {**self.headers, **({"Content-Type": "application/json"} if octets else {}), **(headers or {})}
            connection.request(method, path[1:] if path.startswith("//") else f"/api{path}", octets, sent)
            answer = connection.getresponse()
            content = answer.read()
            told = {key.lower(): value for key, value in answer.getheaders()}
            is_json = told.get("content-type", "").startswith("application/json")
            return Reply(
                answer.status, json.loads(content) if content and is_json and decoded else content or None, told
            )
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Reply:
        return self.ask("GET", path, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.ask("PUT", path, {} if body is None and "raw" not in more else body, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.ask("POST", path, {} if body is None and "raw" not in more else body, **more)

    def delete(self, path: str, **more: Any) -> Reply:
        return self.ask("DELETE", path, **more)
