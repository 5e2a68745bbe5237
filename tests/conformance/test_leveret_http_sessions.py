"""Sessions of browsers over HTTP, what callers may do, and how the files of the user interface are served."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.testing import Broker
from tests.http_client import Api, Reply

OWN = {"X-Requested-With": "test"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"management.session_s": 600}) as running:
        yield running


@pytest.fixture
def nobody(broker: Broker) -> Api:
    return Api(broker, None)


def log_in(nobody: Api, user: str = "guest", password: str = "guest") -> str:
    """The cookie of a new session."""
    reply = nobody.post("/session", {"username": user, "password": password}, headers=OWN)
    assert reply.status == 200, reply
    return reply.headers["set-cookie"].partition(";")[0]


def ask(nobody: Api, cookie: str, path: str = "/whoami", method: str = "GET") -> Reply:
    return nobody.ask(method, path, headers={**OWN, "Cookie": cookie})


# ---- logins


def test_a_login_makes_a_session_that_scripts_cannot_read(nobody: Api, broker: Broker) -> None:
    reply = nobody.post("/session", {"username": "guest", "password": "guest"}, headers=OWN)
    assert reply.body["name"] == "guest"
    assert reply.body["ends_in_s"] == 600
    assert reply.headers["cache-control"] == "no-store"
    told = reply.headers["set-cookie"]
    pattern = rf"leveret-session-{broker.management_port}=[\w-]{{43}}; Path=/api; HttpOnly; SameSite=Strict"
    assert re.fullmatch(pattern, told)
    assert ask(nobody, told.partition(";")[0]).body == {"name": "guest", "tags": ["administrator"]}


def test_a_wrong_password_makes_none_and_asks_no_browser_for_another(nobody: Api) -> None:
    reply = nobody.post("/session", {"username": "guest", "password": "nope"}, headers=OWN)
    assert (reply.status, reply.body) == (401, {"error": "not_authorized", "reason": "Login failed"})
    assert "set-cookie" not in reply.headers
    assert "www-authenticate" not in reply.headers


def test_a_login_takes_the_header_that_no_form_of_another_site_can_send(nobody: Api) -> None:
    reply = nobody.post("/session", {"username": "guest", "password": "guest"})
    assert reply.status == 403
    assert "set-cookie" not in reply.headers


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_session_counts_for_nothing_without_the_header(nobody: Api, method: str) -> None:
    cookie = log_in(nobody)
    assert nobody.ask(method, "/queues/%2F/forged", {}, headers={"Cookie": cookie}).status == 401
    assert nobody.get("/whoami", headers={"Cookie": cookie}).headers["www-authenticate"].startswith("Basic")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_session_is_of_no_use_to_pages_of_other_sites(nobody: Api, site: str) -> None:
    cookie = log_in(nobody)
    reply = nobody.get("/whoami", headers={**OWN, "Cookie": cookie, "Sec-Fetch-Site": site})
    assert reply.status == 403


def test_a_cookie_for_another_port_is_not_looked_at(nobody: Api, broker: Broker) -> None:
    cookie = log_in(nobody).replace(str(broker.management_port), "1")
    assert ask(nobody, cookie).status == 401


def test_sessions_are_counted(nobody: Api, broker: Broker) -> None:
    metrics = Api(f"http://{broker.host}:{broker.metrics_port}", None)

    def counted() -> int:
        found = re.search(rb"^leveret_http_sessions (\d+)", metrics.get("//metrics").body, re.MULTILINE)
        assert found is not None
        return int(found[1])

    before = counted()
    cookie = log_in(nobody)
    assert counted() == before + 1
    assert ask(nobody, cookie, "/session", "DELETE").status == 204
    assert counted() == before


# ---- the ends of sessions


def test_a_logout_ends_the_session_and_no_other(nobody: Api) -> None:
    one, other = log_in(nobody), log_in(nobody)
    reply = ask(nobody, one, "/session", "DELETE")
    assert reply.status == 204
    assert "Max-Age=0" in reply.headers["set-cookie"]
    ended = ask(nobody, one)
    assert (ended.status, ended.body["error"]) == (401, "session_ended")
    assert ask(nobody, other).status == 200


def test_a_session_ends_in_time_and_as_the_settings_say_now(nobody: Api, broker: Broker) -> None:
    cookie = log_in(nobody)
    assert 590 < ask(nobody, cookie, "/session").body["ends_in_s"] <= 600
    sessions = broker.call(lambda node: node.management.services.sessions)
    sessions.session_s = 0.0
    try:
        assert ask(nobody, cookie).status == 401
    finally:
        sessions.session_s = 600.0
    assert ask(nobody, cookie).status == 401, "it has ended for good"


@pytest.mark.parametrize("end", ["password", "deleted", "suspended"])
def test_a_session_ends_with_the_rights_of_its_user(nobody: Api, broker: Broker, end: str) -> None:
    api = Api(broker)
    user = f"user-{end}"
    assert api.put(f"/users/{user}", {"password": "one", "tags": "management"}).status == 201
    cookie = log_in(nobody, user, "one")
    assert ask(nobody, cookie).status == 200
    if end == "password":
        assert api.put(f"/users/{user}", {"password": "two", "tags": "management"}).status == 204
    elif end == "deleted":
        assert api.delete(f"/users/{user}").status == 204
    else:
        broker.call(lambda node: node.broker.catalog.suspensions.__setitem__(user, object()))
    assert ask(nobody, cookie).status == 401
    if end == "suspended":
        broker.call(lambda node: node.broker.catalog.suspensions.pop(user))


def test_rights_that_change_count_at_once(nobody: Api, broker: Broker) -> None:
    api = Api(broker)
    assert api.put("/users/rising", {"password": "one", "tags": "management"}).status == 201
    cookie = log_in(nobody, "rising", "one")
    assert ask(nobody, cookie, "/nodes").status == 401
    user = api.get("/users/rising").body
    same = {"password_hash": user["password_hash"], "hashing_algorithm": user["hashing_algorithm"]}
    assert api.put("/users/rising", {**same, "tags": "monitoring"}).status == 204
    assert ask(nobody, cookie, "/nodes").status == 200


def test_one_user_has_so_many_sessions_and_the_oldest_ends(nobody: Api, broker: Broker) -> None:
    api = Api(broker)
    assert api.put("/users/many", {"password": "one", "tags": ""}).status == 201
    cookies = [log_in(nobody, "many", "one") for _ in range(51)]
    assert ask(nobody, cookies[0]).status == 401
    assert ask(nobody, cookies[1]).status == 200
    assert ask(nobody, cookies[50]).status == 200


# ---- who may what


def test_a_session_says_which_routes_the_tags_allow(broker: Broker) -> None:
    api = Api(broker)
    everything: Any = api.get("/session").body
    assert everything["ends_in_s"] is None
    assert {"DELETE /api/users/{user}", "GET /api/queues", "PUT /api/policies/{vhost}/{name}"} <= set(everything["may"])
    assert api.put("/users/plain", {"password": "one", "tags": "management"}).status == 201
    less = Api(broker, "plain", "one").get("/session").body
    assert "GET /api/queues" in less["may"]
    assert not {"DELETE /api/users/{user}", "GET /api/nodes", "PUT /api/policies/{vhost}/{name}"} & set(less["may"])


def test_access_is_checked_as_the_broker_would(broker: Broker) -> None:
    api = Api(broker)
    assert api.put("/users/reader", {"password": "one", "tags": "management"}).status == 201
    assert api.put("/permissions/%2F/reader", {"configure": "^$", "write": "^w", "read": "^[rw]"}).status == 201
    reader = Api(broker, "reader", "one")
    found = reader.get("/access-check?name=r1").body
    assert found == {
        "user": "reader",
        "vhost": "/",
        "name": "r1",
        "enter": True,
        "configure": False,
        "write": False,
        "read": True,
    }
    assert api.get("/access-check?name=w1&user=reader").body["write"] is True
    assert reader.get("/access-check?name=w1&user=guest").status == 401
    assert api.get("/access-check?name=w1&user=nosuch").status == 404
    assert api.get("/access-check?vhost=nosuch&name=w1").status == 404
    assert api.put("/vhosts/hidden").status == 201
    assert reader.get("/access-check?vhost=hidden&name=w1").status == 404
    permission = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert api.put("/topic-permissions/%2F/reader", permission).status == 201
    topics = reader.get("/access-check?name=amq.topic&exchange=amq.topic&routing_key=a.b").body
    assert (topics["topic_write"], topics["topic_read"]) == (True, False)


# ---- pages


def test_the_first_page_has_a_strict_policy_and_is_asked_for_each_time(nobody: Api) -> None:
    reply = nobody.get("//")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy and "require-trusted-types-for 'script'" in policy
    assert b"<script>" not in reply.body and b"style=" not in reply.body
    again = nobody.get("//", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, None)


def test_what_the_first_page_names_is_kept_for_good_and_compressed(nobody: Api) -> None:
    named = re.findall(rb'(?:src|href)="(/assets/[^"]+)"', nobody.get("//").body)
    assert len(named) == 3
    for path in named:
        plain = nobody.get(f"/{path.decode()}")
        packed = nobody.get(f"/{path.decode()}", headers={"Accept-Encoding": "gzip"})
        assert plain.status == packed.status == 200
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        if packed.headers.get("content-encoding") == "gzip":
            assert gzip.decompress(packed.body) == plain.body
            assert len(packed.body) < len(plain.body)
    assert nobody.get("//assets/index.html").status == 404
    assert nobody.get("//assets/..%2Fpages.py").status == 404
    assert nobody.get("//assets/nosuch.js").status == 404


def test_all_of_it_is_small(broker: Broker) -> None:
    pages = broker.call(lambda node: node.management.services.pages)
    assert sum(len(one.compressed or one.body) for one in pages.values()) < 120 * 1024
