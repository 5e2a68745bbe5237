"""The management API as commands use it: one request, its answer or a clear end.

The standard library's client is enough, and starts faster than any other."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from leveret.cli.exit_codes import Failed, NotAllowed, Unreachable

TIMEOUT_S = 60.0
# Of lists: the most that there may be on a page.
PAGE_SIZE = 500


def part(name: str) -> str:
    """A name as it stands in a path."""
    return quote(name, safe="", errors="surrogateescape")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """`place` is the path of a unix socket, or a URL."""

    def __init__(
        self, place: str, user: str = "", password: str = "", ca: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        self.place = place
        self._ca = ca
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        self._prefix = ""
        if self.is_local:
            if user:
                self._log_in(user, password)
        else:
            url = urlsplit(place)
            if url.scheme not in ("http", "https") or not url.hostname:
                raise Failed(f"{shown(place)} is not the address of a management API; use http://host:15672")
            self._prefix = url.path.rstrip("/").removesuffix("/api")
            user = user or unquote(url.username or "") or "guest"
            password = password or unquote(url.password or "") or ("guest" if user == "guest" else "")
            self._log_in(user, password)

    def _log_in(self, user: str, password: str) -> None:
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers["Authorization"] = f"Basic {credentials}"

    def accepts(self, user: str, password: str) -> bool:
        """Whether this broker accepts the user's password."""
        try:
            Client(self.place, user, password, self._ca).get("/whoami")
        except NotAllowed:
            return False
        return True

    @property
    def is_local(self) -> bool:
        return self.place.startswith("/")

    # ---- requests

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, query=query)[1]

    def put(self, path: str, body: Any = None) -> int:
        """The status: 201 if it was made, 204 if it was there."""
        return self.ask("PUT", path, {} if body is None else body)[0]

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return self.ask("POST", path, {} if body is None else body, query)[1]

    def delete(self, path: str, query: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> Any:
        return self.ask("DELETE", path, query=query, headers=headers)[1]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        connection = self._connected(self._timeout_s)
        try:
            answer = self._sent(connection, method, path, body, query, headers)
            return answer.status, _body_of(answer)
        except TimeoutError:
            raise Unreachable(f"{shown(self.place)} did not answer within {self._timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{shown(self.place)} broke off: {error}") from None
        finally:
            connection.close()

    def each(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Everything of a list that has pages."""
        page, pages = 1, 1
        while page <= pages:
            answer = self.get(path, page=page, page_size=PAGE_SIZE, **query)
            if isinstance(answer, list):
                yield from answer
                return
            yield from answer["items"]
            page, pages = page + 1, answer["page_count"]

    def events(self, path: str, **query: Any) -> Iterator[tuple[str, Any]]:
        """What comes of a route of server-sent events, until it ends: the kind and the data of each."""
        connection = self._connected(None)
        try:
            answer = self._sent(connection, "GET", path, None, query, {"Accept": "text/event-stream"})
            kind, data = "message", ""
            for line in answer:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if text.startswith("event:"):
                    kind = text[6:].strip()
                elif text.startswith("data:"):
                    data += text[5:].strip()
                elif not text and data:
                    yield kind, json.loads(data)
                    kind, data = "message", ""
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{shown(self.place)} broke off: {error}") from None
        finally:
            connection.close()

    # ---- how

    def _connected(self, timeout_s: float | None) -> http.client.HTTPConnection:
        connection = self._connection(timeout_s)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise Unreachable(f"{shown(self.place)}: its certificate is not trusted: {error.verify_message}") from None
        except OSError as error:
            connection.close()
            raise Unreachable(
                f"cannot reach a broker at {shown(self.place)}: {error.strerror or error}; is it running there?"
            ) from None
        return connection

    def _connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        if self.is_local:
            return _UnixConnection(self.place, timeout_s)
        url = urlsplit(self.place)
        assert url.hostname is not None
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=self._ca or None)
            return http.client.HTTPSConnection(url.hostname, url.port or 15671, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(url.hostname, url.port or 15672, timeout=timeout_s)

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        query: dict[str, Any] | None,
        headers: dict[str, str] | None,
    ) -> http.client.HTTPResponse:
        asked = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = f"{self._prefix}/api{path}" + (f"?{urlencode(asked)}" if asked else "")
        octets = None if body is None else json.dumps(body).encode()
        sent = {
            **self._headers,
            **({"Content-Type": "application/json"} if octets is not None else {}),
            **(headers or {}),
        }
        connection.request(method, target, octets, sent)
        answer = connection.getresponse()
        if answer.status >= 300:
            # No redirect either: the password would go along.
            _refuse(answer, method, path)
        return answer


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _body_of(answer: http.client.HTTPResponse) -> Any:
    octets = answer.read()
    if octets and answer.headers.get("Content-Type", "").startswith("application/json"):
        return json.loads(octets)
    return octets or None


def _refuse(answer: http.client.HTTPResponse, method: str, path: str) -> None:
    told = _body_of(answer)
    reason = told.get("reason", told) if isinstance(told, dict) else told
    text = reason if isinstance(reason, str) else json.dumps(reason) if reason else answer.reason
    if answer.status in (401, 403):
        raise NotAllowed(f"not allowed: {text}")
    if answer.status == 404:
        text = f"not found: {' '.join(unquote(name) for name in path.split('/')[1:])}" if text == "Not Found" else text
    raise Failed(text.strip(), answer.status, told)


def shown(place: str) -> str:
    """Without the password."""
    if place.startswith("/"):
        return place
    url = urlsplit(place)
    host = url.hostname or ""
    return f"{url.scheme}://{host}{f':{url.port}' if url.port else ''}"


def can_reach(path: str) -> bool:
    """Whether a process listens at a unix socket."""
    if not os.path.exists(path):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True
