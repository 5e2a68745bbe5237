"""Parameters of components, and of the broker as a whole, as operators change them.

Limits of virtual hosts and operators' policies are parameters to RabbitMQ's tools and records of their own to us, so
they are shown here and written by those who own them."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.auth.access import Right, has
from leveret.auth.identity import Identity
from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.definitions import OWN_PREFIX, policy_value
from leveret.catalog.parameters import (
    LIMITS,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    direct_vhost,
    name_or_value_problem,
    parameter_problems,
    uris_of,
)
from leveret.catalog.records import GlobalParameter, Parameter
from leveret.errors import InvalidRequest


class ParameterService:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # ---- of a virtual host

    def each(self, component: str | None = None, vhost: str | None = None) -> Iterator[Parameter]:
        catalog = self._broker.catalog
        for name, record in catalog.vhosts.items():
            if vhost not in (None, name):
                continue
            if component in (None, VHOST_LIMITS) and record.limits:
                yield Parameter(name, VHOST_LIMITS, LIMITS, record.limits)
            for policy in catalog.policies[name].all():
                kind = OPERATOR_POLICY if policy.operator else POLICY
                # Policies are listed only to those who ask for them by their name, as in RabbitMQ.
                if component == kind or (component is None and policy.operator):
                    yield Parameter(name, kind, policy.name, policy_value(policy))
        for parameter in catalog.parameters.values():
            if component in (None, parameter.component) and vhost in (None, parameter.vhost):
                yield parameter

    def find(self, vhost: str, component: str, name: str) -> Parameter | None:
        return next((one for one in self.each(component, vhost) if one.name == name), None)

    def put(self, parameter: Parameter, who: Identity) -> bool:
        """Whether it is new. The virtual host exists; `who` sets it, and reaches no further by it than otherwise."""
        check_parameter(parameter)
        check_reach(parameter, who)
        existing = self._broker.catalog.parameters.get((parameter.vhost, parameter.component, parameter.name))
        if existing is None:
            self._broker.limits.topology.check_parameters(parameter.vhost)
        if existing != parameter:
            self._broker.apply(commands.PutParameter(parameter))
        return existing is None

    def delete(self, vhost: str, component: str, name: str) -> bool:
        """Whether there was one."""
        if (vhost, component, name) not in self._broker.catalog.parameters:
            return False
        self._broker.apply(commands.DeleteParameter(vhost, component, name))
        return True

    # ---- of the broker

    def global_ones(self) -> list[GlobalParameter]:
        found = self._broker.catalog.global_parameters
        return [found[name] for name in sorted(found) if not name.startswith(OWN_PREFIX)]

    def find_global(self, name: str) -> GlobalParameter | None:
        return None if name.startswith(OWN_PREFIX) else self._broker.catalog.global_parameters.get(name)

    def put_global(self, parameter: GlobalParameter) -> bool:
        check_global(parameter)
        existing = self.find_global(parameter.name)
        if existing != parameter:
            self._broker.apply(commands.PutGlobalParameter(parameter))
        return existing is None

    def delete_global(self, name: str) -> bool:
        if self.find_global(name) is None:
            return False
        self._broker.apply(commands.DeleteGlobalParameter(name))
        return True


# ---- checks, which definitions make as well


def check_parameter(parameter: Parameter) -> None:
    if parameter.component in (POLICY, OPERATOR_POLICY):
        raise InvalidRequest("policies may not be set using this method")
    problems = parameter_problems(parameter.component, parameter.name, parameter.value)
    if problems:
        raise InvalidRequest("Validation failed\n\n" + "\n".join(problems) + "\n")


def check_reach(parameter: Parameter, who: Identity) -> None:
    """A link that runs inside this broker does nothing that the one who asked for it may not do himself; an
    administrator may give himself every right."""
    if has(who, Right.ADMINISTRATOR):
        return
    for uri in uris_of(parameter.value):
        vhost = direct_vhost(uri)
        if vhost is not None and not who.may_enter(vhost or parameter.vhost):
            raise InvalidRequest(
                f'Validation failed\n\nuser "{who.name}" may not connect to vhost "{vhost or parameter.vhost}"\n'
            )


def check_global(parameter: GlobalParameter) -> None:
    name = parameter.name
    if name.startswith(OWN_PREFIX):
        raise InvalidRequest(f"names that begin with {OWN_PREFIX} are the broker's own")
    problem = name_or_value_problem(name, parameter.value)
    if problem is not None:
        raise InvalidRequest(problem)
