"""How many logins there were, by protocol, and how many of them failed."""

from __future__ import annotations

from leveret.auth.access import Right
from leveret.management.api.nodes import named_node
from leveret.management.api.numbers import Described
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import route

# What RabbitMQ calls the protocols.
NAMES = {"amqp": "amqp091"}


@route("GET", "/api/auth/attempts/{name}", Right.MONITORING, "Logins since the start, or since they were reset")
def get_attempts(request: Request) -> list[Described]:
    named_node(request)
    told = request.services.attempts_told
    found = []
    for protocol, attempts in sorted(request.services.broker.logins.attempts.items()):
        succeeded, failed = told.get(protocol, (0, 0))
        found.append(
            {
                "protocol": NAMES.get(protocol, protocol),
                "auth_attempts": attempts.succeeded + attempts.failed - succeeded - failed,
                "auth_attempts_failed": attempts.failed - failed,
                "auth_attempts_succeeded": attempts.succeeded - succeeded,
            }
        )
    return found


@route("DELETE", "/api/auth/attempts/{name}", Right.MONITORING, "Counts anew from now on; metrics go on as they are")
def reset_attempts(request: Request) -> Answer:
    named_node(request)
    attempts = request.services.broker.logins.attempts
    request.services.attempts_told = {protocol: (each.succeeded, each.failed) for protocol, each in attempts.items()}
    return DONE


@route("GET", "/api/auth/attempts/{name}/source", Right.MONITORING, "Logins by address and user: not recorded")
def get_sources(request: Request) -> list[Described]:
    named_node(request)
    return []
