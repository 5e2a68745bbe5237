"""Who may administrate what over HTTP: every tag, with and without a permission in the virtual host, on Leveret and on
RabbitMQ alike."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.admin_scene import ALL, POLICY, SHOVEL, TOPIC, UPSTREAM, admin_scene
from tests.conformance.http_target import running_api
from tests.conformance.target import ORACLE_IS_TARGET
from tests.http_client import Api


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_api() as url:
        yield url


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    with admin_scene(url) as api:
        yield api


# Statuses for users with no tag, management, policymaker, monitoring and administrator; the first row of each pair with
# a permission in the virtual host, the second without.
NOBODY = "401 401 401 401 401"
MEMBERS = ("401 2 2 2 2", NOBODY)
ADMINISTRATORS = ("401 401 401 401 2", "401 401 401 401 2")
POLICYMAKERS = ("401 401 2 401 2", "401 401 401 401 2")
GOVERNED = ("401 2 2 2 2", "401 401 401 401 2")
ANYWHERE = ("401 2 2 2 2", "401 2 2 2 2")
MONITORS = ("401 401 401 2 2", "401 401 401 2 2")
RIGHTS: list[tuple[str, str, Any, tuple[str, str]]] = [
    ("PUT", "/queues/v/new", {}, MEMBERS),
    ("DELETE", "/queues/v/q/contents", None, MEMBERS),
    ("POST", "/queues/v/q/actions", {"action": "sync"}, ADMINISTRATORS),
    ("DELETE", "/queues/v/q", None, MEMBERS),
    ("PUT", "/exchanges/v/new", {}, MEMBERS),
    ("DELETE", "/exchanges/v/e", None, MEMBERS),
    ("POST", "/bindings/v/e/e/q/q", {}, MEMBERS),
    ("DELETE", "/bindings/v/e/e/q/q/k", None, MEMBERS),
    ("GET", "/vhosts", None, ANYWHERE),
    ("GET", "/vhosts/v", None, ADMINISTRATORS),
    ("PUT", "/vhosts/v", {}, ADMINISTRATORS),
    ("DELETE", "/vhosts/v", None, ADMINISTRATORS),
    ("GET", "/vhosts/v/permissions", None, ADMINISTRATORS),
    ("GET", "/users", None, ADMINISTRATORS),
    ("GET", "/users/victim", None, ADMINISTRATORS),
    ("PUT", "/users/victim", {"password": "x", "tags": "administrator"}, ADMINISTRATORS),
    ("DELETE", "/users/victim", None, ADMINISTRATORS),
    ("POST", "/users/bulk-delete", {"users": ["victim"]}, ADMINISTRATORS),
    ("GET", "/users/without-permissions", None, ADMINISTRATORS),
    ("GET", "/users/victim/permissions", None, ADMINISTRATORS),
    ("GET", "/permissions", None, ADMINISTRATORS),
    ("PUT", "/permissions/v/victim", ALL, ADMINISTRATORS),
    ("DELETE", "/permissions/v/victim", None, ADMINISTRATORS),
    ("PUT", "/topic-permissions/v/victim", TOPIC, ADMINISTRATORS),
    ("GET", "/topic-permissions", None, ADMINISTRATORS),
    ("GET", "/policies", None, ANYWHERE),
    ("GET", "/policies/v", None, GOVERNED),
    ("GET", "/policies/v/p", None, POLICYMAKERS),
    ("PUT", "/policies/v/p", POLICY, POLICYMAKERS),
    ("DELETE", "/policies/v/p", None, POLICYMAKERS),
    ("GET", "/operator-policies/v", None, GOVERNED),
    ("GET", "/operator-policies/v/p", None, ADMINISTRATORS),
    ("PUT", "/operator-policies/v/p", POLICY, ADMINISTRATORS),
    ("DELETE", "/operator-policies/v/p", None, ADMINISTRATORS),
    ("GET", "/vhost-limits", None, ANYWHERE),
    ("GET", "/vhost-limits/v", None, ("401 2 2 2 2", "401 401 401 2 2")),
    ("PUT", "/vhost-limits/v/max-queues", {"value": 100}, ADMINISTRATORS),
    ("DELETE", "/vhost-limits/v/max-queues", None, ADMINISTRATORS),
    ("GET", "/user-limits", None, ANYWHERE),
    ("PUT", "/user-limits/victim/max-channels", {"value": 100}, ADMINISTRATORS),
    ("GET", "/parameters", None, ("401 401 2 401 2", "401 401 2 401 2")),
    ("GET", "/parameters/shovel/v", None, POLICYMAKERS),
    ("PUT", "/parameters/federation-upstream/v/u", {"value": UPSTREAM}, POLICYMAKERS),
    ("DELETE", "/parameters/federation-upstream/v/u", None, POLICYMAKERS),
    ("PUT", "/global-parameters/g", {"value": 1}, ("401 401 2 401 2", "401 401 2 401 2")),
    ("GET", "/definitions", None, ADMINISTRATORS),
    ("GET", "/definitions/v", None, ADMINISTRATORS),
    ("POST", "/definitions", {}, ADMINISTRATORS),
    ("POST", "/definitions/v", {}, ADMINISTRATORS),
    ("GET", "/shovels", None, MONITORS),
    ("GET", "/federation-links/v", None, MONITORS),
]
TAGS = ("", "management", "policymaker", "monitoring", "administrator")


def prepare(api: Api) -> None:
    api.put("/vhosts/v")
    api.put("/permissions/v/guest", ALL)
    api.put("/users/victim", {"password_hash": "", "tags": ""})
    api.put("/permissions/v/victim", ALL)
    api.put("/queues/v/q")
    api.put("/exchanges/v/e", {"type": "direct"})
    api.post("/bindings/v/e/e/q/q", {"routing_key": "k"})
    api.put("/policies/v/p", POLICY)
    api.put("/operator-policies/v/p", POLICY)
    api.put("/parameters/federation-upstream/v/u", {"value": UPSTREAM})
    for tag in TAGS:
        api.put(f"/permissions/v/in-{tag}", ALL)


@pytest.fixture(scope="module")
def people(url: str) -> Iterator[dict[str, Api]]:
    api = Api(url)
    made = {}
    for place in ("in", "out"):
        for tag in TAGS:
            name = f"{place}-{tag}"
            assert api.put(f"/users/{name}", {"password": "x", "tags": tag}).status == 201
            made[name] = Api(url, name, "x")
    yield made
    for name in made:
        api.delete(f"/users/{name}")


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"), RIGHTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_who_may(
    api: Api, people: dict[str, Api], method: str, path: str, body: Any, expected: tuple[str, str]
) -> None:
    for place, row in zip(("in", "out"), expected, strict=True):
        for tag, status in zip(TAGS, row.split(), strict=True):
            if method == "DELETE" or path.endswith(("q/q", "bulk-delete", "victim", "/p", "q/actions")):
                prepare(api)
            elif place == "in":
                api.put(f"/permissions/v/in-{tag}", ALL)
            reply = people[f"{place}-{tag}"].ask(method, path, body)
            assert str(reply.status).startswith(status), (place, tag, reply)
    api.delete("/global-parameters/g")


@pytest.mark.skipif(ORACLE_IS_TARGET, reason="RabbitMQ lets whoever may monitor delete shovels")
def test_deleting_a_shovel_takes_what_making_it_took(api: Api, people: dict[str, Api]) -> None:
    prepare(api)
    api.put("/parameters/shovel/v/s", {"value": SHOVEL})
    for name in ("in-monitoring", "out-policymaker", "in-management"):
        assert people[name].delete("/shovels/vhost/v/s").status == 401
    assert people["in-policymaker"].delete("/shovels/vhost/v/s").status == 204
