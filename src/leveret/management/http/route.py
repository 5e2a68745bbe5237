"""The table of routes: which path, which method, who may, what goes in and what comes out.

Everything about a route is said where its handler is written. The server dispatches by this table, the OpenAPI document
is made of it, and the tests walk through it: a route that says nothing about rights cannot be written.

Paths are matched as they came over the wire, before %2F becomes a slash: names may hold anything."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from leveret.auth.access import Right

if TYPE_CHECKING:
    from leveret.management.http.request import Request

Handler = Callable[["Request"], Any]


class Login(enum.Enum):
    """For routes that take no tag."""

    # No login is required.
    NOT_REQUIRED = "not-required"
    # Logged in is enough.
    USER = "user"


class Scope(enum.Enum):
    """What the {vhost} of a path asks for."""

    # A permission in it.
    ENTER = "enter"
    # The same, or to be one who sees all of them.
    SEE = "see"
    # A permission in it, or to be an administrator, who governs them all.
    GOVERN = "govern"
    # Nothing: the route's right is enough.
    NAME = "name"


class Size(enum.Enum):
    """How large a body may be. The figures are settings."""

    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Parameter:
    """One parameter of the query."""

    name: str
    description: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    handler: Handler
    right: Right | Login
    summary: str
    scope: Scope
    # A msgspec type the body is checked against, or None if the handler reads it, if there is one.
    body: Any
    # JSON Schema of the body, for the document only.
    accepts: dict[str, Any] | None
    size: Size
    query: tuple[Parameter, ...]
    # Status -> a msgspec type or a JSON Schema, or None for an answer without body.
    answers: dict[int, Any]
    # The answer may hold what people sent in messages: never cached on the way.
    private: bool
    # Changes nothing, although it is no GET: not in the audit log.
    harmless: bool

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD", "OPTIONS") and not self.harmless


def route(
    method: str,
    path: str,
    right: Right | Login,
    summary: str,
    *,
    scope: Scope | None = None,
    body: Any = None,
    accepts: dict[str, Any] | None = None,
    size: Size = Size.SMALL,
    query: Iterable[Parameter] = (),
    answers: dict[int, Any] | None = None,
    private: bool = False,
    harmless: bool = False,
) -> Callable[[Handler], Handler]:
    """Puts a handler at a path; a handler may stand at several."""
    if scope is None:
        scope = Scope.SEE if method == "GET" else Scope.ENTER

    def put(handler: Handler) -> Handler:
        made = Route(
            method,
            path,
            handler,
            right,
            summary,
            scope,
            body,
            accepts,
            size,
            tuple(query),
            answers or ({200: Any} if method == "GET" else {204: None}),
            private,
            harmless,
        )
        routes: list[Route] = handler.__dict__.setdefault("routes", [])
        routes.append(made)
        return handler

    return put


def routes_of(module: Any) -> list[Route]:
    """All routes whose handlers the module defines."""
    found: list[Route] = []
    for value in vars(module).values():
        if callable(value) and getattr(value, "__module__", None) == module.__name__:
            found += getattr(value, "routes", [])
    return found


class _Place:
    """One place of the tree of paths."""

    __slots__ = ("named", "parameter", "routes")

    def __init__(self) -> None:
        self.named: dict[str, _Place] = {}
        self.parameter: _Place | None = None
        self.routes: dict[str, Route] = {}


class Table:
    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = list(routes)
        # The OpenAPI document, once it was requested.
        self.described: bytes | None = None
        self._root = _Place()
        for one in self.routes:
            self._add(one)

    def _add(self, one: Route) -> None:
        place = self._root
        for part in one.path.strip("/").split("/"):
            if part.startswith("{"):
                if place.parameter is None:
                    place.parameter = _Place()
                place = place.parameter
            else:
                place = place.named.setdefault(part, _Place())
        if one.method in place.routes:
            raise ValueError(f"{one.method} {one.path} stands in the table twice")
        place.routes[one.method] = one

    def find(self, raw_path: str) -> tuple[dict[str, Route], list[str]] | None:
        """The routes of a path by their methods, and its parameters in their order. A slash at the end counts for
        nothing, as with RabbitMQ."""
        parts = raw_path.strip("/").split("/")
        values: list[str] = []
        place = self._walk(self._root, parts, 0, values)
        return None if place is None else (place.routes, values)

    def _walk(self, place: _Place, parts: list[str], at: int, values: list[str]) -> _Place | None:
        if at == len(parts):
            return place if place.routes else None
        part = unquote(parts[at], errors="surrogateescape")
        named = place.named.get(part)
        if named is not None:
            # A queue may be called "get", and a virtual host "quorum": the other way is tried if this one ends nowhere.
            count = len(values)
            found = self._walk(named, parts, at + 1, values)
            if found is not None:
                return found
            del values[count:]
        if place.parameter is None or parts[at] == "":
            return None
        values.append(part)
        return self._walk(place.parameter, parts, at + 1, values)
