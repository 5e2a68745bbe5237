"""Parameters: what components such as shovels and federation were told, per virtual host and for the whole broker.

Addresses in them may hold passwords: only administrators see those."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import Right, has, require
from leveret.catalog.definitions import shown_parameter
from leveret.catalog.parameters import LIMITS, VHOST_LIMITS, masked, parameter_problems
from leveret.catalog.records import GlobalParameter, Parameter
from leveret.management.api.vhosts import existing_vhost
from leveret.management.http.ask import CREATED, DONE, Answer, Ask
from leveret.management.http.bodies import PARAMETER, VALUE_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.route import Scope, route


def described_parameter(ask: Ask, parameter: Parameter) -> dict[str, Any]:
    shown = shown_parameter(parameter)
    return shown if has(ask.who, Right.ADMINISTRATOR) else {**shown, "value": masked(shown["value"])}


PARAMETERS: Listed[Parameter] = Listed(described_parameter, lambda parameter: parameter.name)


@route(
    "GET",
    "/api/parameters",
    Right.POLICYMAKER,
    "All parameters",
    query=LIST_PARAMETERS,
    private=True,
    answers={200: listing(PARAMETER)},
)
@route(
    "GET",
    "/api/parameters/{component}",
    Right.POLICYMAKER,
    "Parameters of a component",
    query=LIST_PARAMETERS,
    private=True,
    answers={200: listing(PARAMETER)},
)
@route(
    "GET",
    "/api/parameters/{component}/{vhost}",
    Right.POLICYMAKER,
    "Parameters of a component in a virtual host",
    scope=Scope.GOVERN,
    query=LIST_PARAMETERS,
    private=True,
)
async def get_parameters(ask: Ask) -> Answer:
    vhost = existing_vhost(ask).name if "vhost" in ask.path else None
    everywhere = has(ask.who, Right.ADMINISTRATOR)
    found = [
        parameter
        for parameter in ask.services.parameters.each(ask.path.get("component"), vhost)
        if everywhere or ask.who.may_enter(parameter.vhost)
    ]
    return await listed(ask, found, PARAMETERS)


@route(
    "GET",
    "/api/parameters/{component}/{vhost}/{name}",
    Right.POLICYMAKER,
    "One parameter",
    scope=Scope.GOVERN,
    private=True,
)
def get_parameter(ask: Ask) -> dict[str, Any]:
    return one(ask, described_parameter(ask, _existing(ask)))


@route(
    "PUT",
    "/api/parameters/{component}/{vhost}/{name}",
    Right.POLICYMAKER,
    "Set a parameter",
    scope=Scope.GOVERN,
    answers={201: None, 204: None},
    accepts=VALUE_BODY,
)
async def put_parameter(ask: Ask) -> Answer:
    fields = Fields(ask.body)
    vhost = ask.vhost.name
    fields.need("value")
    value = fields.values["value"]
    component, name = ask.path["component"], ask.path["name"]
    if component == VHOST_LIMITS:
        return await _put_limits(ask, name, value)
    parameter = Parameter(vhost, component, name, value)
    new = await ask.durably(lambda: ask.services.parameters.put(parameter, ask.who))
    return CREATED if new else DONE


async def _put_limits(ask: Ask, name: str, value: Any) -> Answer:
    """Limits are an administrator's, by whichever door."""
    require(ask.who, Right.ADMINISTRATOR)
    problems = parameter_problems(VHOST_LIMITS, name, value)
    if problems:
        raise bad_request("Validation failed\n\n" + "\n".join(problems) + "\n")
    new = not existing_vhost(ask).limits
    await ask.durably(lambda: ask.services.vhosts.set_limits(existing_vhost(ask), value))
    return CREATED if new else DONE


@route(
    "DELETE", "/api/parameters/{component}/{vhost}/{name}", Right.POLICYMAKER, "Delete a parameter", scope=Scope.GOVERN
)
async def delete_parameter(ask: Ask) -> Answer:
    parameter = _existing(ask)
    if parameter.component == VHOST_LIMITS and parameter.name == LIMITS:
        require(ask.who, Right.ADMINISTRATOR)
        await ask.durably(lambda: ask.services.vhosts.set_limits(existing_vhost(ask), {}))
        return DONE
    deleted = await ask.durably(
        lambda: ask.services.parameters.delete(parameter.vhost, parameter.component, parameter.name)
    )
    if not deleted:
        raise bad_request("policies may not be cleared using this method")
    return DONE


def _existing(ask: Ask) -> Parameter:
    vhost = existing_vhost(ask).name
    found = ask.services.parameters.find(vhost, ask.path["component"], ask.path["name"])
    if found is None:
        raise not_found()
    return found


# ---- of the broker


def described_global(ask: Ask, parameter: GlobalParameter) -> dict[str, Any]:
    value = parameter.value if has(ask.who, Right.ADMINISTRATOR) else masked(parameter.value)
    return {"name": parameter.name, "value": value}


GLOBAL_PARAMETERS: Listed[GlobalParameter] = Listed(described_global, lambda parameter: parameter.name)


@route(
    "GET", "/api/global-parameters", Right.POLICYMAKER, "Parameters of the broker", query=LIST_PARAMETERS, private=True
)
async def get_global_parameters(ask: Ask) -> Answer:
    return await listed(ask, ask.services.parameters.global_ones(), GLOBAL_PARAMETERS)


@route("GET", "/api/global-parameters/{name}", Right.POLICYMAKER, "One parameter of the broker", private=True)
def get_global_parameter(ask: Ask) -> dict[str, Any]:
    found = ask.services.parameters.find_global(ask.path["name"])
    if found is None:
        raise not_found()
    return described_global(ask, found)


@route(
    "PUT",
    "/api/global-parameters/{name}",
    Right.POLICYMAKER,
    "Set a parameter of the broker",
    answers={201: None, 204: None},
    accepts=VALUE_BODY,
)
async def put_global_parameter(ask: Ask) -> Answer:
    fields = Fields(ask.body)
    fields.need("value")
    parameter = GlobalParameter(ask.path["name"], fields.values["value"])
    new = await ask.durably(lambda: ask.services.parameters.put_global(parameter))
    return CREATED if new else DONE


@route("DELETE", "/api/global-parameters/{name}", Right.POLICYMAKER, "Delete a parameter of the broker")
async def delete_global_parameter(ask: Ask) -> Answer:
    if not await ask.durably(lambda: ask.services.parameters.delete_global(ask.path["name"])):
        raise not_found()
    return DONE
