"""Policies, and those of operators."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import Right, has
from leveret.catalog.definitions import shown_policy
from leveret.catalog.records import Policy
from leveret.management.http.ask import CREATED, DONE, Answer, Ask
from leveret.management.http.bodies import POLICY, POLICY_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.route import Scope, route

POLICIES: Listed[Policy] = Listed(lambda ask, policy: shown_policy(policy), lambda policy: policy.name)


def _listed(ask: Ask, operator: bool) -> list[Policy]:
    """Of virtual hosts that the caller may enter; administrators see all."""
    everywhere = has(ask.who, Right.ADMINISTRATOR)
    vhost = ask.vhost.name if "vhost" in ask.path else None
    found = ask.services.policies.list(vhost, operator)
    return [policy for policy in found if everywhere or ask.who.may_enter(policy.vhost)]


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
async def get_policies(ask: Ask) -> Answer:
    return await listed(ask, _listed(ask, operator=False), POLICIES)


@route("GET", "/api/operator-policies", Right.MANAGEMENT, "All policies of operators", query=LIST_PARAMETERS)
@route(
    "GET",
    "/api/operator-policies/{vhost}",
    Right.MANAGEMENT,
    "Policies of operators in a virtual host",
    scope=Scope.GOVERN,
    query=LIST_PARAMETERS,
)
async def get_operator_policies(ask: Ask) -> Answer:
    return await listed(ask, _listed(ask, operator=True), POLICIES)


@route(
    "GET", "/api/policies/{vhost}/{name}", Right.POLICYMAKER, "One policy", scope=Scope.GOVERN, answers={200: POLICY}
)
def get_policy(ask: Ask) -> dict[str, Any]:
    return one(ask, shown_policy(_existing(ask, operator=False)))


@route("GET", "/api/operator-policies/{vhost}/{name}", Right.ADMINISTRATOR, "One policy of operators", scope=Scope.NAME)
def get_operator_policy(ask: Ask) -> dict[str, Any]:
    return one(ask, shown_policy(_existing(ask, operator=True)))


@route(
    "PUT",
    "/api/policies/{vhost}/{name}",
    Right.POLICYMAKER,
    "Set a policy",
    scope=Scope.GOVERN,
    answers={201: None, 204: None},
    accepts=POLICY_BODY,
)
async def put_policy(ask: Ask) -> Answer:
    return await _put(ask, operator=False)


@route(
    "PUT",
    "/api/operator-policies/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Set a policy of operators, which only lowers limits",
    scope=Scope.NAME,
    answers={201: None, 204: None},
    accepts=POLICY_BODY,
)
async def put_operator_policy(ask: Ask) -> Answer:
    return await _put(ask, operator=True)


@route("DELETE", "/api/policies/{vhost}/{name}", Right.POLICYMAKER, "Delete a policy", scope=Scope.GOVERN)
async def delete_policy(ask: Ask) -> Answer:
    return await _delete(ask, operator=False)


@route(
    "DELETE",
    "/api/operator-policies/{vhost}/{name}",
    Right.ADMINISTRATOR,
    "Delete a policy of operators",
    scope=Scope.NAME,
)
async def delete_operator_policy(ask: Ask) -> Answer:
    return await _delete(ask, operator=True)


async def _put(ask: Ask, operator: bool) -> Answer:
    fields = Fields(ask.body)
    vhost = ask.vhost.name
    fields.need("pattern", "definition")
    new = await ask.durably(
        lambda: ask.services.policies.put(
            vhost,
            ask.path["name"],
            fields.values["pattern"],
            fields.values["definition"],
            fields.values.get("priority", 0),
            fields.values.get("apply-to", "all"),
            operator,
        )
    )
    return CREATED if new else DONE


async def _delete(ask: Ask, operator: bool) -> Answer:
    policy = _existing(ask, operator)
    await ask.durably(lambda: ask.services.policies.delete(policy.vhost, policy.name, operator))
    return DONE


def _existing(ask: Ask, operator: bool) -> Policy:
    found = ask.services.policies.find(ask.path["vhost"], ask.path["name"], operator)
    if found is None:
        raise not_found()
    return found
