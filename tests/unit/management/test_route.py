"""The table of routes: paths as they come over the wire, whatever their names hold."""

from __future__ import annotations

import pytest

from leveret.auth.access import Right
from leveret.management.http.request import Request
from leveret.management.http.route import Login, Route, Scope, Table, route, routes_of


@route("GET", "/api/queues", Right.MANAGEMENT, "all")
def everything(ask: Request) -> str:
    return "everything"


@route("GET", "/api/queues/{vhost}", Right.MANAGEMENT, "of one")
def some(ask: Request) -> str:
    return "some"


@route("PUT", "/api/queues/{vhost}/{queue}", Right.MANAGEMENT, "make")
@route("GET", "/api/queues/{vhost}/{queue}", Right.MANAGEMENT, "one")
def one(ask: Request) -> str:
    return "one"


@route("POST", "/api/queues/{vhost}/{queue}/get", Right.MANAGEMENT, "get", harmless=True)
def get(ask: Request) -> str:
    return "get"


@route("GET", "/api/queues/detailed", Login.USER, "by a name of its own")
def detailed(ask: Request) -> str:
    return "detailed"


def table() -> Table:
    import tests.unit.management.test_route as module

    return Table(routes_of(module))


def find(path: str, method: str = "GET") -> tuple[Route, list[str]]:
    found = table().find(path)
    assert found is not None
    return found[0][method], found[1]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/queues/%2F/q", ["/", "q"]),
        ("/api/queues/%2f/q", ["/", "q"]),
        ("/api/queues/%2F/a%2Fb", ["/", "a/b"]),
        ("/api/queues/%2F/q/", ["/", "q"]),
        ("/api/queues/v/%252F", ["v", "%2F"]),
        ("/api/queues/v/a%20b+c", ["v", "a b+c"]),
        ("/api/queues/v/%C3%BC", ["v", "ü"]),
        ("/api/queues/v/%FF", ["v", "\udcff"]),
        ("/api/queues/v/..", ["v", ".."]),
        ("/api/queues/v/%3Fname", ["v", "?name"]),
        # What is a word of another route may be a name as well.
        ("/api/queues/detailed/q", ["detailed", "q"]),
        ("/api/queues/v/get", ["v", "get"]),
    ],
)
def test_names_in_paths_are_taken_as_they_came(path: str, names: list[str]) -> None:
    assert find(path) == (find("/api/queues/v/q")[0], names)


def test_a_word_goes_before_a_name() -> None:
    assert find("/api/queues/detailed")[0].handler is detailed
    assert find("/api/queues/v/q/get", "POST")[1] == ["v", "q"]


@pytest.mark.parametrize("path", ["/", "/api", "/api/nosuch", "/api/queues/v/q/nosuch", "/api/queues//q", "/queues"])
def test_other_paths_are_not_found(path: str) -> None:
    assert table().find(path) is None


def test_a_route_cannot_stand_there_twice() -> None:
    route_of_one = find("/api/queues/v/q")[0]
    with pytest.raises(ValueError, match="twice"):
        Table([route_of_one, route_of_one])


def test_what_a_route_asks_for_unless_it_says() -> None:
    assert find("/api/queues/v/q")[0].scope is Scope.SEE
    assert find("/api/queues/v/q", "PUT")[0].scope is Scope.ENTER
    assert [find("/api/queues/v/q", method)[0].changes for method in ("GET", "PUT")] == [False, True]
    assert not find("/api/queues/v/q/get", "POST")[0].changes
