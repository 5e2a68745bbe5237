"""The audit log: who changed what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from leveret.auth.access import Right
from leveret.auth.audit import Noted
from leveret.management.http.errors import bad_request
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter, route

FILTERS = (
    Parameter("user", "Only what this user did."),
    Parameter("action", "Only actions with this in them, such as queue.delete or /api/users."),
    Parameter("outcome", "Only done, refused or failed."),
    Parameter("since", "Only from then on: seconds since 1970, or a moment such as 2026-01-31T12:00:00Z."),
)


def described(_request: Request, noted: Noted) -> dict[str, Any]:
    return {
        "time": datetime.fromtimestamp(noted.time, UTC).isoformat(timespec="milliseconds"),
        "timestamp": int(noted.time * 1000),
        "user": noted.user,
        "peer": noted.peer,
        "via": noted.via,
        "action": noted.action,
        "names": noted.names,
        "outcome": noted.outcome,
        **({"status": noted.status} if noted.status else {}),
        **({"dropped": noted.dropped} if noted.dropped else {}),
    }


NOTED: Listed[Noted] = Listed(
    described,
    lambda noted: noted.action,
    {
        "timestamp": lambda noted: noted.time,
        "time": lambda noted: noted.time,
        "user": lambda noted: noted.user,
        "action": lambda noted: noted.action,
    },
)


@route(
    "GET",
    "/api/audit",
    Right.MONITORING,
    "The last changes, done and refused, newest first",
    query=(*FILTERS, *LIST_PARAMETERS),
    private=True,
)
async def get_audit(request: Request) -> Answer:
    since = _since(request)
    user, action, outcome = request.query.get("user"), request.query.get("action", ""), request.query.get("outcome")
    found = [
        noted
        for noted in reversed(request.services.audit.recent)
        if noted.time >= since and user in (None, noted.user) and action in noted.action
        if outcome in (None, noted.outcome)
    ]
    return await listed(request, found, NOTED)


def _since(request: Request) -> float:
    given = request.query.get("since", "")
    if not given:
        return 0.0
    try:
        return float(given)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise bad_request(f"since is {given[:64]!r}; it must be seconds or a moment") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
