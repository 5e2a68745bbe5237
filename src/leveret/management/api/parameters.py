"""Parameters: what components such as shovels and federation were told, per virtual host and for the whole broker.

Addresses in them may hold passwords: only administrators see those."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right, has, require
from leveret.catalog.definitions import shown_parameter
from leveret.catalog.parameters import LIMITS, VHOST_LIMITS, masked, parameter_problems
from leveret.catalog.records import GlobalParameter, Parameter
from leveret.management.api.vhosts import existing_vhost
from leveret.management.http.bodies import PARAMETER, VALUE_BODY
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import bad_request, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import Scope, route


def described_parameter(request: Request, parameter: Parameter) -> dict[str, Any]:
    shown = shown_parameter(parameter)
    return shown if has(request.who, Right.ADMINISTRATOR) else {**shown, "value": masked(shown["value"])}


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
async def get_parameters(request: Request) -> Answer:
    vhost = existing_vhost(request).name if "vhost" in request.path else None
    everywhere = has(request.who, Right.ADMINISTRATOR)
    found = [
        parameter
        for parameter in request.services.parameters.each(request.path.get("component"), vhost)
        if everywhere or request.who.may_enter(parameter.vhost)
    ]
    return await listed(request, found, PARAMETERS)


@route(
    "GET",
    "/api/parameters/{component}/{vhost}/{name}",
    Right.POLICYMAKER,
    "One parameter",
    scope=Scope.GOVERN,
    private=True,
)
def get_parameter(request: Request) -> dict[str, Any]:
    return one(request, described_parameter(request, _existing(request)))


@route(
    "PUT",
    "/api/parameters/{component}/{vhost}/{name}",
    Right.POLICYMAKER,
    "Set a parameter",
    scope=Scope.GOVERN,
    answers={201: None, 204: None},
    accepts=VALUE_BODY,
)
async def put_parameter(request: Request) -> Answer:
    fields = Fields(request.body)
    vhost = request.vhost.name
    fields.need("value")
    value = fields.values["value"]
    component, name = request.path["component"], request.path["name"]
    if component == VHOST_LIMITS:
        return await _put_limits(request, name, value)
    parameter = Parameter(vhost, component, name, value)
    new = await request.durably(lambda: request.services.parameters.put(parameter, request.who))
    return CREATED if new else DONE


async def _put_limits(request: Request, name: str, value: Any) -> Answer:
    """Limits are an administrator's, by whichever door."""
    require(request.who, Right.ADMINISTRATOR)
    problems = parameter_problems(VHOST_LIMITS, name, value)
    if problems:
        raise bad_request("Validation failed\n\n" + "\n".join(problems) + "\n")
    new = not existing_vhost(request).limits
    await request.durably(lambda: request.services.vhosts.set_limits(existing_vhost(request), value))
    return CREATED if new else DONE


@route(
    "DELETE", "/api/parameters/{component}/{vhost}/{name}", Right.POLICYMAKER, "Delete a parameter", scope=Scope.GOVERN
)
async def delete_parameter(request: Request) -> Answer:
    parameter = _existing(request)
    if parameter.component == VHOST_LIMITS and parameter.name == LIMITS:
        require(request.who, Right.ADMINISTRATOR)
        await request.durably(lambda: request.services.vhosts.set_limits(existing_vhost(request), {}))
        return DONE
    deleted = await request.durably(
        lambda: request.services.parameters.delete(parameter.vhost, parameter.component, parameter.name)
    )
    if not deleted:
        raise bad_request("policies may not be cleared using this method")
    return DONE


def _existing(request: Request) -> Parameter:
    vhost = existing_vhost(request).name
    found = request.services.parameters.find(vhost, request.path["component"], request.path["name"])
    if found is None:
        raise not_found()
    return found


# ---- of the broker


def described_global(request: Request, parameter: GlobalParameter) -> dict[str, Any]:
    value = parameter.value if has(request.who, Right.ADMINISTRATOR) else masked(parameter.value)
    return {"name": parameter.name, "value": value}


GLOBAL_PARAMETERS: Listed[GlobalParameter] = Listed(described_global, lambda parameter: parameter.name)


@route(
    "GET", "/api/global-parameters", Right.POLICYMAKER, "Parameters of the broker", query=LIST_PARAMETERS, private=True
)
async def get_global_parameters(request: Request) -> Answer:
    return await listed(request, request.services.parameters.global_ones(), GLOBAL_PARAMETERS)


@route("GET", "/api/global-parameters/{name}", Right.POLICYMAKER, "One parameter of the broker", private=True)
def get_global_parameter(request: Request) -> dict[str, Any]:
    found = request.services.parameters.find_global(request.path["name"])
    if found is None:
        raise not_found()
    return described_global(request, found)


@route(
    "PUT",
    "/api/global-parameters/{name}",
    Right.POLICYMAKER,
    "Set a parameter of the broker",
    answers={201: None, 204: None},
    accepts=VALUE_BODY,
)
async def put_global_parameter(request: Request) -> Answer:
    fields = Fields(request.body)
    fields.need("value")
    parameter = GlobalParameter(request.path["name"], fields.values["value"])
    new = await request.durably(lambda: request.services.parameters.put_global(parameter))
    return CREATED if new else DONE


@route("DELETE", "/api/global-parameters/{name}", Right.POLICYMAKER, "Delete a parameter of the broker")
async def delete_global_parameter(request: Request) -> Answer:
    if not await request.durably(lambda: request.services.parameters.delete_global(request.path["name"])):
        raise not_found()
    return DONE
