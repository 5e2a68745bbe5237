"""Bindings of headers exchanges that mean something else to RabbitMQ: it does not look at arguments that begin with x-.

Finds them, and gives exchanges the argument that makes them mean the same here. Exchanges that every virtual host has
cannot be declared with an argument: for these there is the node's setting."""

from __future__ import annotations

from typing import Any

from leveret.routing.delayed import DELAYED_TYPE
from leveret.routing.delayed import NAME as DELAYED
from leveret.routing.headers import IGNORE_X, Headers

SETTING = "routing.headers_ignore_x"
# Headers exchanges that every virtual host has.
PREDECLARED = ("amq.headers", "amq.match")
WITH_X = ("all-with-x", "any-with-x")
Thing = dict[str, Any]


def sources_ignoring_x(definitions: Thing) -> set[tuple[str, str]]:
    """Virtual hosts and names of the exchanges with a binding that would mean something else; of any type."""
    bindings = definitions.get("bindings")
    return {
        (str(binding.get("vhost")), str(binding.get("source")))
        for binding in (bindings if isinstance(bindings, list) else ())
        if isinstance(binding, dict) and _ignores_x(binding.get("arguments"))
    }


def _ignores_x(arguments: Any) -> bool:
    if not isinstance(arguments, dict) or arguments.get("x-match") in WITH_X:
        return False
    return any(name.startswith("x-") and name != "x-match" for name in arguments)


def needs_argument(exchange: Thing) -> bool:
    """For an exchange that has such a binding."""
    arguments = exchange.get("arguments") or {}
    kind = arguments.get(DELAYED_TYPE) if exchange["type"] == DELAYED else exchange["type"]
    return kind == Headers.name and IGNORE_X not in arguments


def with_argument(exchange: Thing) -> Thing:
    return {**exchange, "arguments": {**(exchange.get("arguments") or {}), IGNORE_X: True}}


def needs_setting(definitions: Thing) -> list[tuple[str, str]]:
    """The predeclared exchanges that have such bindings, by virtual host and name."""
    return sorted(place for place in sources_ignoring_x(definitions) if place[1] in PREDECLARED)
