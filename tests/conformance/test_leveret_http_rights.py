"""Who may ask for what over HTTP: every route, every kind of user, virtual hosts of one's own and of others.

The table is written by hand, a second time beside the routes: a route that is not in it, or that asks for less than it
says, fails. Whoever may not is refused before anything happens, so all of these requests are really made. That whoever
may is not refused is asked of the function that decides, because many of those requests would have consequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leveret.auth.identity import CatalogUser
from leveret.errors import Forbidden
from leveret.management.api.table import make_table
from leveret.management.http.errors import HttpError
from leveret.management.http.route import Route
from leveret.testing import Broker
from tests.http_client import Api

# right, what the virtual host of the path asks for, method, path
TABLE = """
    nobody        -      GET    /
    management    -      GET    /api/access-check
    management    enter  GET    /api/aliveness-test/{vhost}
    administrator -      GET    /api/all-configuration
    administrator -      POST   /api/all-configuration
    monitoring    -      GET    /api/audit
    monitoring    -      DELETE /api/auth/attempts/{name}
    monitoring    -      GET    /api/auth/attempts/{name}
    monitoring    -      GET    /api/auth/attempts/{name}/source
    administrator -      POST   /api/auth/hash_password
    monitoring    -      GET    /api/backup
    administrator -      POST   /api/backup
    management    -      GET    /api/bindings
    management    see    GET    /api/bindings/{vhost}
    management    see    GET    /api/bindings/{vhost}/e/{exchange}/e/{destination}
    management    enter  POST   /api/bindings/{vhost}/e/{exchange}/e/{destination}
    management    see    GET    /api/bindings/{vhost}/e/{exchange}/e/{destination}/{properties_key}
    management    enter  DELETE /api/bindings/{vhost}/e/{exchange}/e/{destination}/{props}
    management    see    GET    /api/bindings/{vhost}/e/{exchange}/q/{destination}
    management    see    GET    /api/bindings/{vhost}/e/{exchange}/q/{destination}/{properties_key}
    management    enter  POST   /api/bindings/{vhost}/e/{exchange}/q/{queue}
    management    enter  DELETE /api/bindings/{vhost}/e/{exchange}/q/{queue}/{props}
    management    -      GET    /api/channels
    management    -      GET    /api/channels/{name}
    management    -      GET    /api/cluster-name
    administrator -      PUT    /api/cluster-name
    management    -      GET    /api/connections
    management    -      DELETE /api/connections/username/{user}
    management    -      GET    /api/connections/username/{user}
    management    -      DELETE /api/connections/{name}
    management    -      GET    /api/connections/{name}
    management    -      GET    /api/connections/{name}/channels
    management    -      GET    /api/consumers
    management    see    GET    /api/consumers/{vhost}
    monitoring    -      GET    /api/dead-letter-alerts
    management    -      GET    /api/dead-letter-schedules
    management    see    GET    /api/dead-letter-schedules/{vhost}
    management    -      GET    /api/dead-letters
    management    see    GET    /api/dead-letters/{vhost}
    administrator -      GET    /api/definitions
    administrator -      POST   /api/definitions
    administrator -      POST   /api/definitions/diff
    administrator name   GET    /api/definitions/{vhost}
    administrator name   POST   /api/definitions/{vhost}
    administrator -      GET    /api/deprecated-features
    administrator -      GET    /api/deprecated-features/used
    management    -      GET    /api/events
    management    -      GET    /api/exchanges
    management    see    GET    /api/exchanges/{vhost}
    management    enter  DELETE /api/exchanges/{vhost}/{exchange}
    management    see    GET    /api/exchanges/{vhost}/{exchange}
    management    enter  PUT    /api/exchanges/{vhost}/{exchange}
    management    see    GET    /api/exchanges/{vhost}/{exchange}/bindings/destination
    management    see    GET    /api/exchanges/{vhost}/{exchange}/bindings/source
    management    enter  POST   /api/exchanges/{vhost}/{exchange}/publish
    management    -      GET    /api/extensions
    administrator -      GET    /api/feature-flags
    administrator -      PUT    /api/feature-flags/{name}/enable
    monitoring    -      GET    /api/federation-links
    monitoring    -      GET    /api/federation-links/state/{state}
    policymaker   govern DELETE /api/federation-links/vhost/{vhost}/{id}/{node}/restart
    monitoring    name   GET    /api/federation-links/{vhost}
    monitoring    name   GET    /api/federation-links/{vhost}/state/{state}
    policymaker   -      GET    /api/global-parameters
    policymaker   -      DELETE /api/global-parameters/{name}
    policymaker   -      GET    /api/global-parameters/{name}
    policymaker   -      PUT    /api/global-parameters/{name}
    management    -      GET    /api/health/checks/alarms
    nobody        -      GET    /api/health/checks/below-node-connection-limit
    management    -      GET    /api/health/checks/certificate-expiration/{within}/{unit}
    nobody        -      GET    /api/health/checks/is-in-service
    management    -      GET    /api/health/checks/local-alarms
    management    -      GET    /api/health/checks/node-is-mirror-sync-critical
    management    -      GET    /api/health/checks/node-is-quorum-critical
    management    -      GET    /api/health/checks/port-listener/{port}
    management    -      GET    /api/health/checks/protocol-listener/{protocol}
    nobody        -      GET    /api/health/checks/no-suspended-users
    nobody        -      GET    /api/health/checks/ready-to-serve-clients
    management    -      GET    /api/health/checks/virtual-hosts
    management    -      GET    /api/healthchecks/node
    management    -      GET    /api/healthchecks/node/{name}
    monitoring    -      GET    /api/nodes
    monitoring    -      GET    /api/nodes/{name}
    monitoring    -      GET    /api/nodes/{name}/memory
    monitoring    -      GET    /api/nodes/{name}/memory/relative
    nobody        -      GET    /api/openapi.json
    management    -      GET    /api/operator-policies
    management    govern GET    /api/operator-policies/{vhost}
    administrator name   DELETE /api/operator-policies/{vhost}/{name}
    administrator name   GET    /api/operator-policies/{vhost}/{name}
    administrator name   PUT    /api/operator-policies/{vhost}/{name}
    management    -      GET    /api/overview
    policymaker   -      GET    /api/parameters
    policymaker   -      GET    /api/parameters/{component}
    policymaker   govern GET    /api/parameters/{component}/{vhost}
    policymaker   govern DELETE /api/parameters/{component}/{vhost}/{name}
    policymaker   govern GET    /api/parameters/{component}/{vhost}/{name}
    policymaker   govern PUT    /api/parameters/{component}/{vhost}/{name}
    administrator -      GET    /api/permissions
    administrator name   DELETE /api/permissions/{vhost}/{user}
    administrator name   GET    /api/permissions/{vhost}/{user}
    administrator name   PUT    /api/permissions/{vhost}/{user}
    management    -      GET    /api/policies
    management    govern GET    /api/policies/{vhost}
    policymaker   govern DELETE /api/policies/{vhost}/{name}
    policymaker   govern GET    /api/policies/{vhost}/{name}
    policymaker   govern PUT    /api/policies/{vhost}/{name}
    policymaker   govern POST   /api/policies/{vhost}/{name}/preview
    management    -      GET    /api/queues
    management    -      GET    /api/queues/detailed
    administrator -      POST   /api/queues/quorum/replicas/on/{node}/grow
    administrator -      DELETE /api/queues/quorum/replicas/on/{node}/shrink
    administrator name   POST   /api/queues/quorum/{vhost}/{queue}/replicas/add
    administrator name   DELETE /api/queues/quorum/{vhost}/{queue}/replicas/delete
    management    see    GET    /api/queues/quorum/{vhost}/{queue}/status
    management    see    GET    /api/queues/{vhost}
    management    enter  DELETE /api/queues/{vhost}/{queue}
    management    see    GET    /api/queues/{vhost}/{queue}
    management    enter  PUT    /api/queues/{vhost}/{queue}
    management    enter  POST   /api/queues/{vhost}/{queue}/ack
    administrator name   POST   /api/queues/{vhost}/{queue}/actions
    management    see    GET    /api/queues/{vhost}/{queue}/bindings
    management    enter  DELETE /api/queues/{vhost}/{queue}/contents
    management    enter  GET    /api/queues/{vhost}/{queue}/get
    management    enter  POST   /api/queues/{vhost}/{queue}/get
    management    enter  POST   /api/queues/{vhost}/{queue}/nack
    management    enter  PUT    /api/queues/{vhost}/{queue}/pause
    management    enter  GET    /api/queues/{vhost}/{queue}/peek
    management    enter  POST   /api/queues/{vhost}/{queue}/reprocess
    management    enter  PUT    /api/queues/{vhost}/{queue}/resume
    management    see    GET    /api/queues/{vhost}/{queue}/unacked
    administrator -      POST   /api/rebalance/queues
    user          -      DELETE /api/session
    user          -      GET    /api/session
    nobody        -      POST   /api/session
    monitoring    -      GET    /api/shovels
    policymaker   govern DELETE /api/shovels/vhost/{vhost}/{name}
    monitoring    name   GET    /api/shovels/vhost/{vhost}/{name}
    policymaker   govern DELETE /api/shovels/vhost/{vhost}/{name}/pause
    policymaker   govern PUT    /api/shovels/vhost/{vhost}/{name}/pause
    policymaker   govern DELETE /api/shovels/vhost/{vhost}/{name}/restart
    monitoring    name   GET    /api/shovels/{vhost}
    management    -      POST   /api/simulate-route
    management    -      GET    /api/stream/connections
    management    see    GET    /api/stream/connections/{vhost}
    management    see    DELETE /api/stream/connections/{vhost}/{name}
    management    see    GET    /api/stream/connections/{vhost}/{name}
    management    see    GET    /api/stream/connections/{vhost}/{name}/consumers
    management    see    GET    /api/stream/connections/{vhost}/{name}/publishers
    management    -      GET    /api/stream/consumers
    management    see    GET    /api/stream/consumers/{vhost}
    management    -      GET    /api/stream/publishers
    management    see    GET    /api/stream/publishers/{vhost}
    management    see    GET    /api/stream/publishers/{vhost}/{stream}
    management    -      GET    /api/stream/super-streams
    management    see    GET    /api/stream/super-streams/{vhost}
    management    enter  DELETE /api/stream/super-streams/{vhost}/{name}
    management    see    GET    /api/stream/super-streams/{vhost}/{name}
    management    enter  PUT    /api/stream/super-streams/{vhost}/{name}
    monitoring    -      GET    /api/storage/damages
    management    see    GET    /api/stream/{vhost}/{stream}/offset
    management    see    GET    /api/stream/{vhost}/{stream}/tracking
    management    enter  DELETE /api/stream/{vhost}/{stream}/tracking/{consumer}
    management    see    GET    /api/stream/{vhost}/{stream}/tracking/{consumer}
    management    enter  PUT    /api/stream/{vhost}/{stream}/tracking/{consumer}
    administrator -      DELETE /api/suspended-users
    administrator -      GET    /api/suspended-users
    administrator -      DELETE /api/suspended-users/{user}
    management    -      GET    /api/tap
    management    -      GET    /api/tasks
    management    -      DELETE /api/tasks/{task}
    management    -      GET    /api/tasks/{task}
    administrator -      GET    /api/topic-permissions
    administrator name   DELETE /api/topic-permissions/{vhost}/{user}
    administrator name   GET    /api/topic-permissions/{vhost}/{user}
    administrator name   PUT    /api/topic-permissions/{vhost}/{user}
    administrator name   DELETE /api/topic-permissions/{vhost}/{user}/{exchange}
    administrator name   GET    /api/topic-permissions/{vhost}/{user}/{exchange}
    management    -      GET    /api/user-limits
    management    -      GET    /api/user-limits/{user}
    administrator -      DELETE /api/user-limits/{user}/{name}
    administrator -      PUT    /api/user-limits/{user}/{name}
    administrator -      GET    /api/users
    administrator -      POST   /api/users/bulk-delete
    administrator -      GET    /api/users/without-permissions
    administrator -      DELETE /api/users/{user}
    administrator -      GET    /api/users/{user}
    administrator -      PUT    /api/users/{user}
    administrator -      GET    /api/users/{user}/permissions
    administrator -      GET    /api/users/{user}/topic-permissions
    user          -      GET    /api/version
    management    -      GET    /api/vhost-limits
    management    see    GET    /api/vhost-limits/{vhost}
    administrator name   DELETE /api/vhost-limits/{vhost}/{name}
    administrator name   PUT    /api/vhost-limits/{vhost}/{name}
    management    -      GET    /api/vhosts
    administrator name   DELETE /api/vhosts/{vhost}
    administrator name   GET    /api/vhosts/{vhost}
    administrator name   PUT    /api/vhosts/{vhost}
    management    see    GET    /api/vhosts/{vhost}/channels
    management    see    GET    /api/vhosts/{vhost}/connections
    administrator name   DELETE /api/vhosts/{vhost}/deletion/protection
    administrator name   GET    /api/vhosts/{vhost}/deletion/protection
    administrator name   POST   /api/vhosts/{vhost}/deletion/protection
    administrator name   GET    /api/vhosts/{vhost}/permissions
    administrator name   POST   /api/vhosts/{vhost}/start/{node}
    administrator name   GET    /api/vhosts/{vhost}/topic-permissions
    user          -      GET    /api/whoami
    nobody        -      GET    /assets/{file}
    nobody        -      GET    /health/live
    nobody        -      GET    /health/ready
    management    enter  POST   /bindings/{vhost}/e/{exchange}/q/{queue}
    management    enter  PUT    /exchanges/{vhost}/{exchange}
    management    enter  POST   /exchanges/{vhost}/{exchange}/publish
    management    enter  PUT    /queues/{vhost}/{queue}
    management    enter  POST   /queues/{vhost}/{queue}/ack
    management    enter  DELETE /queues/{vhost}/{queue}/contents
    management    enter  GET    /queues/{vhost}/{queue}/get
    management    enter  POST   /queues/{vhost}/{queue}/nack
    management    enter  POST   /queues/{vhost}/{queue}/reprocess
"""

# Who has which right.
HOLDERS = {
    "nobody": {"", "untagged", "management", "policymaker", "monitoring", "administrator"},
    "user": {"untagged", "management", "policymaker", "monitoring", "administrator"},
    "management": {"management", "policymaker", "monitoring", "administrator"},
    "policymaker": {"policymaker", "administrator"},
    "monitoring": {"monitoring", "administrator"},
    "administrator": {"administrator"},
}
# Who may in a virtual host in which he has no permission.
IN_OTHERS = {
    "enter": set[str](),
    "see": {"monitoring", "administrator"},
    "govern": {"administrator"},
    "name": {"management", "policymaker", "monitoring", "administrator"},
}
USERS = ("untagged", "management", "policymaker", "monitoring", "administrator")
OWN, OTHERS = "own", "others"


def rows() -> list[tuple[str, str, str, str]]:
    found = []
    for line in TABLE.strip().splitlines():
        right, scope, method, path = line.split()
        found.append((right, scope, method, path))
    return found


def may(right: str, scope: str, vhost: str, user: str) -> bool:
    if user not in HOLDERS[right]:
        return False
    return scope == "-" or vhost == OWN or right == "nobody" or user in IN_OTHERS[scope]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        api = Api(running)
        for vhost in (OWN, OTHERS):
            assert api.put(f"/vhosts/{vhost}").status == 201
        for user in USERS:
            tags = "" if user == "untagged" else user
            assert api.put(f"/users/{user}", {"password": user, "tags": tags}).status == 201
            rights = {"configure": ".*", "write": ".*", "read": ".*"}
            assert api.put(f"/permissions/{OWN}/{user}", rights).status == 201
        yield running


def test_every_route_stands_in_the_table() -> None:
    routes = sorted((one.method, one.path) for one in make_table().routes)
    assert routes == sorted((method, path) for _, _, method, path in rows())


def filled(path: str, vhost: str) -> str:
    """The path with names of nothing that exists, but for the virtual host."""
    parts = [vhost if part == "{vhost}" else "1" if part.startswith("{") else part for part in path.split("/")]
    return "/".join(parts)


@pytest.mark.parametrize("user", ["", *USERS])
def test_whoever_may_not_is_refused(broker: Broker, user: str) -> None:
    api = Api(broker, user, user) if user else Api(broker, None)
    let_in = []
    for right, scope, method, path in rows():
        for vhost in (OWN,) if scope == "-" else (OWN, OTHERS):
            if may(right, scope, vhost, user):
                continue
            reply = api.ask(method, "/" + filled(path, vhost), None if method == "GET" else {})
            if reply.status != 401:
                let_in.append((method, path, vhost, reply.status))
    assert let_in == []


@pytest.mark.parametrize("user", USERS)
def test_whoever_may_is_not(broker: Broker, user: str) -> None:
    def refused(node: Any) -> list[tuple[str, str, str]]:
        found = []
        routes = {(one.method, one.path): one for one in make_table().routes}
        who = CatalogUser(node.broker.catalog, user)
        for right, scope, method, path in rows():
            for vhost in (OWN,) if scope == "-" else (OWN, OTHERS):
                if may(right, scope, vhost, user) and not _let_in(node, who, routes[method, path], vhost):
                    found.append((method, path, vhost))
        return found

    assert broker.call(refused) == []


def _let_in(node: Any, who: CatalogUser, one: Route, vhost: str) -> bool:
    try:
        node.management.server.check_rights(who, one, {"vhost": vhost} if "{vhost}" in one.path else {})
    except (HttpError, Forbidden):
        return False
    return True
