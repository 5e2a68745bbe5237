"""Users who are not let in because the catalog was damaged, and the operator's decision on them."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right
from leveret.broker.suspensions import release
from leveret.management.http.bodies import SUSPENSIONS
from leveret.management.http.errors import not_found
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import route


@route(
    "GET",
    "/api/suspended-users",
    Right.ADMINISTRATOR,
    "Users who are not let in since the catalog was damaged",
    private=True,
    answers={200: SUSPENSIONS},
)
def get_suspended(request: Request) -> list[dict[str, Any]]:
    suspensions = request.services.broker.catalog.suspensions
    return [
        {"user": one.user, "reason": one.reason, "since": one.since_s}
        for one in sorted(suspensions.values(), key=lambda one: one.user)
    ]


@route("DELETE", "/api/suspended-users", Right.ADMINISTRATOR, "Let all of them in again")
async def release_all(request: Request) -> Answer:
    names = sorted(request.services.broker.catalog.suspensions)
    request.noted["users"] = names
    await request.durably(lambda: release(request.services.broker, names))
    return DONE


@route("DELETE", "/api/suspended-users/{user}", Right.ADMINISTRATOR, "Let one of them in again")
async def release_one(request: Request) -> Answer:
    name = request.path["user"]
    if name not in request.services.broker.catalog.suspensions:
        raise not_found()
    await request.durably(lambda: release(request.services.broker, [name]))
    return DONE
