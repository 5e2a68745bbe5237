"""Policies, and those of operators."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right, has
from leveret.catalog.definitions import shown_policy
from leveret.catalog.records import Policy
from leveret.catalog.unusable import with_problems
from leveret.management.http.bodies import POLICY, POLICY_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import Scope, route

POLICIES: Listed[Policy] = Listed(lambda request, policy: _shown(policy), lambda policy: policy.name)


def _shown(policy: Policy) -> dict[str, Any]:
    return with_problems(shown_policy(policy), policy)


def _listed(request: Request, operator: bool) -> list[Policy]:
    """Of virtual hosts that the caller may enter; administrators see all."""
    everywhere = has(request.who, Right.ADMINISTRATOR)
    vhost = request.vhost.name if "vhost" in request.path else None
    found = request.services.policies.list(vhost, operator)
    return [policy for policy in found if everywhere or request.who.may_enter(policy.vhost)]


@route("GET", "/api/policies", Right.MANAGEMENT, "All policies", query=LIST_PARAMETERS, answers={200: listing(POLICY)})
@route(
    "GET",
    "/api/policies/{vhost}",
    Right.MANAGEMENT,
    "Policies of a virtual host",
    scope=Scope.GOVERN,
    query=LIST_PARAMETERS,
    answers={200: listing(POLICY)},
)
async def get_policies(request: Request) -> Answer:
    return await listed(request, _listed(request, operator=False), POLICIES)


@route("GET", "/api/operator-policies", Right.MANAGEMENT, "All policies of operators", query=LIST_PARAMETERS)
@route(
    "GET",
    "/api/operator-policies/{vhost}",
    Right.MANAGEMENT,
    "Policies of operators in a virtual host",
    scope=Scope.GOVERN,
    query=LIST_PARAMETERS,
)
async def get_operator_policies(request: Request) -> Answer:
    return await listed(request, _listed(request, operator=True), POLICIES)


@route(
    "GET", "/api/policies/{vhost}/{name}", Right.POLICYMAKER, "One policy", scope=Scope.GOVERN, answers={200: POLICY}
)
def get_policy(request: Request) -> dict[str, Any]:
    return one(request, _shown(_existing(request, operator=False)))


@route("GET", "/api/operator-policies/{vhost}/{name}", Right.ADMINISTRATOR, "One policy of operators", scope=Scope.NAME)
def get_operator_policy(request: Request) -> dict[str, Any]:
    return one(request, _shown(_existing(request, operator=True)))


@route(
    "PUT",
    "/api/policies/{vhost}/{name}",
    Right.POLICYMAKER,
    "Set a policy",
    scope=Scope.GOVERN,
    answers={201: None, 204: None},
    accepts=POLICY_BODY,
)
async def put_policy(request: Request) -> Answer:
    return await _put(request, operator=False)


@route(
    "PUT",
    "/api/operator-policies/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Set a policy of operators, which only lowers limits",
    scope=Scope.NAME,
    answers={201: None, 204: None},
    accepts=POLICY_BODY,
)
async def put_operator_policy(request: Request) -> Answer:
    return await _put(request, operator=True)


@route("DELETE", "/api/policies/{vhost}/{name}", Right.POLICYMAKER, "Delete a policy", scope=Scope.GOVERN)
async def delete_policy(request: Request) -> Answer:
    return await _delete(request, operator=False)


@route(
    "DELETE",
    "/api/operator-policies/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Delete a policy of operators",
    scope=Scope.NAME,
)
async def delete_operator_policy(request: Request) -> Answer:
    return await _delete(request, operator=True)


async def _put(request: Request, operator: bool) -> Answer:
    fields = Fields(request.body)
    vhost = request.vhost.name
    fields.need("pattern", "definition")
    new = await request.durably(
        lambda: request.services.policies.put(
            vhost,
            request.path["name"],
            fields.values["pattern"],
            fields.values["definition"],
            fields.values.get("priority", 0),
            fields.values.get("apply-to", "all"),
            operator,
        )
    )
    await _governed(request, vhost)
    return CREATED if new else DONE


async def _delete(request: Request, operator: bool) -> Answer:
    policy = _existing(request, operator)
    await request.durably(lambda: request.services.policies.delete(policy.vhost, policy.name, operator))
    await _governed(request, policy.vhost)
    return DONE


async def _governed(request: Request, vhost: str) -> None:
    """Until all queues of the virtual host live by what has changed; of thousands that takes some turns of the loop."""
    live = request.services.broker.vhosts.get(vhost)
    if live is not None:
        await live.policy_application.done()


def _existing(request: Request, operator: bool) -> Policy:
    found = request.services.policies.find(request.path["vhost"], request.path["name"], operator)
    if found is None:
        raise not_found()
    return found
