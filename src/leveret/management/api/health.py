"""Health checks, for load balancers, probes and people: 200 if all is well, 503 with a reason if not.

Three sets: RabbitMQ's own checks, those it had before and still answers, and two plain addresses for probes that know
nothing of either."""

from __future__ import annotations

import time
from typing import Any

from leveret.auth.access import Right, sees_vhost
from leveret.management.api.nodes import named_node
from leveret.management.api.numbers import Described
from leveret.management.http.errors import bad_request
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Login, route

FAILED = 503
OK: Described = {"status": "ok"}
SINGLE = "single node cluster"
DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
WITHIN_MAX = 1000
DAY_S = 86400
CHECKS = "/api/health/checks"
ANSWERS = {200: Any, FAILED: Any}


def failed(reason: str, **more: Any) -> Answer:
    return Answer(FAILED, {"status": "failed", "reason": reason, **more})


# ---- alarms


@route("GET", f"{CHECKS}/alarms", Right.MANAGEMENT, "No alarm anywhere in the cluster", answers=ANSWERS)
def check_alarms(request: Request) -> Described | Answer:
    return _alarms(request, "in the cluster")


@route("GET", f"{CHECKS}/local-alarms", Right.MANAGEMENT, "No alarm on this node", answers=ANSWERS)
def check_local_alarms(request: Request) -> Described | Answer:
    return _alarms(request, "on the node")


def _alarms(request: Request, where: str) -> Described | Answer:
    alarms = request.services.broker.alarms
    if not alarms:
        return OK
    node = request.services.node_name
    found = [{"node": node, "resource": source, "reason": reason} for source, reason in sorted(alarms.items())]
    return failed(f"There are alarms in effect {where}", alarms=found)


# ---- ports


@route("GET", f"{CHECKS}/port-listener/{{port}}", Right.MANAGEMENT, "Something listens on a port", answers=ANSWERS)
def check_port(request: Request) -> Described | Answer:
    given = request.path["port"]
    if not given.isascii() or not given.isdecimal() or not 0 < len(given) <= 5:
        raise bad_request(f"{given[:64]!r} is no port")
    port, ports = int(given), [listener.port for listener in request.services.listeners()]
    if port in ports:
        return {"status": "ok", "port": port}
    return failed("No active listener", missing=port, ports=ports)


@route(
    "GET",
    f"{CHECKS}/protocol-listener/{{protocol}}",
    Right.MANAGEMENT,
    "Something speaks a protocol, such as amqp, amqps, stream or http",
    answers=ANSWERS,
)
def check_protocol(request: Request) -> Described | Answer:
    wanted = request.path["protocol"]
    spoken = sorted({f"{each.protocol}/ssl" if each.tls else each.protocol for each in request.services.listeners()})
    if PROTOCOL_NAMES.get(wanted.lower(), wanted.lower()) in spoken:
        return {"status": "ok", "protocol": wanted}
    return failed("No active listener", missing=wanted, protocols=spoken)


# What people call them, and what listeners do.
PROTOCOL_NAMES = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqps": "amqp/ssl",
    "streams": "stream",
    "https": "http/ssl",
    "prometheus": "http/prometheus",
}


# ---- what the node has


@route("GET", f"{CHECKS}/virtual-hosts", Right.MANAGEMENT, "All virtual hosts run", answers=ANSWERS)
def check_vhosts(request: Request) -> Described | Answer:
    broker = request.services.broker
    down = sorted(set(broker.catalog.vhosts) - set(broker.vhosts))
    seen = [name for name in down if sees_vhost(request.who, name)]
    return failed("Some virtual hosts are down", **{"virtual-hosts": seen}) if down else OK


@route(
    "GET",
    f"{CHECKS}/node-is-quorum-critical",
    Right.MANAGEMENT,
    "Nothing would lose its majority with this node",
    answers=ANSWERS,
)
@route(
    "GET",
    f"{CHECKS}/node-is-mirror-sync-critical",
    Right.MANAGEMENT,
    "The same for mirrored queues, which there are none of",
    answers=ANSWERS,
)
def check_critical(request: Request) -> Described:
    return {"status": "ok", "reason": SINGLE}


@route(
    "GET",
    f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}",
    Right.MANAGEMENT,
    "No certificate ends within so many days, weeks, months or years",
    answers=ANSWERS,
)
def check_certificates(request: Request) -> Described | Answer:
    within, unit = request.path["within"], request.path["unit"]
    if not within.isascii() or not within.isdecimal() or len(within) > 9 or not 1 <= int(within) <= WITHIN_MAX:
        raise bad_request(f"{within[:64]!r} is not a number from 1 to {WITHIN_MAX}")
    if unit not in DAYS:
        raise bad_request(f"{unit[:64]!r} is none of {', '.join(DAYS)}")
    until = time.time() + int(within) * DAYS[unit] * DAY_S
    expiring = [
        {"node": request.services.node_name, "name": each.name, "expires_at": int(each.ends_at_s)}
        for each in request.services.certificates()
        if each.ends_at_s <= until
    ]
    return failed("Certificates expiring", expired=expiring) if expiring else OK


@route(
    "GET",
    f"{CHECKS}/below-node-connection-limit",
    Login.NOT_REQUIRED,
    "There is room for one more connection",
    answers=ANSWERS,
)
def check_connections(request: Request) -> Described | Answer:
    count, most = len(request.services.broker.connections), request.services.connections_max()
    numbers: Described = {"limit": most or "infinity", "connections": count}
    if most and count >= most:
        return failed("node connection limit is reached", **numbers)
    return {"status": "ok", **numbers}


@route(
    "GET",
    f"{CHECKS}/no-suspended-users",
    Login.NOT_REQUIRED,
    "No user is kept out because the catalog was damaged",
    answers=ANSWERS,
)
def check_suspensions(request: Request) -> Described | Answer:
    """Without a login: none would be accepted."""
    count = len(request.services.broker.catalog.suspensions)
    return failed("the catalog was damaged: users are suspended", suspended=count) if count else OK


# ---- may clients come


@route("GET", f"{CHECKS}/is-in-service", Login.NOT_REQUIRED, "The node lets clients in", answers=ANSWERS)
def check_service(request: Request) -> Described | Answer:
    if request.services.in_service():
        return OK
    return failed("this node has not finished its boot process, or is stopping")


@route(
    "GET",
    f"{CHECKS}/ready-to-serve-clients",
    Login.NOT_REQUIRED,
    "The node lets clients in, and has room for one more",
    answers=ANSWERS,
)
@route("GET", "/health/ready", Login.NOT_REQUIRED, "The same for probes that know nothing of RabbitMQ", answers=ANSWERS)
def check_ready(request: Request) -> Described | Answer:
    first = check_service(request)
    if isinstance(first, Answer):
        return first
    second = check_connections(request)
    return second if isinstance(second, Answer) else OK


@route("GET", "/health/live", Login.NOT_REQUIRED, "The process answers: all that a liveness probe should ask")
def check_life(request: Request) -> Described:
    return OK


# ---- what was there before


@route("GET", "/api/healthchecks/node", Right.MANAGEMENT, "An old check: this node has no alarm")
@route("GET", "/api/healthchecks/node/{name}", Right.MANAGEMENT, "The same of a node by its name")
def check_node(request: Request) -> Described:
    if "name" in request.path:
        named_node(request)
    alarms = request.services.broker.alarms
    if alarms:
        # With 200: callers of this route read the text.
        return {"status": "failed", "reason": f"resource alarm(s) in effect: {', '.join(sorted(alarms))}"}
    return OK
