"""The contract of exchange types, and the one argument they all share: alternate-exchange.

Never knows a particular type; registry.py lists them. Called by broker/."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, final

from leveret.catalog.arguments import DEDUPLICATION_CHECKS
from leveret.catalog.policies import MESSAGE_ID_ARGUMENT
from leveret.catalog.policy_keys import MESSAGE_IDS
from leveret.core.codec.wording import shown_type, shown_value
from leveret.core.matching.matcher import Matcher
from leveret.errors import SoftError

__all__ = ["ALTERNATE_EXCHANGE", "ExchangeType", "Pick", "text_argument"]

ALTERNATE_EXCHANGE = "alternate-exchange"

# The chance that a matcher may need: pick(n) gives a number from 0 to n - 1. runtime.dice has it.
Pick = Callable[[int], int]


class ExchangeType(ABC):
    """What may be declared and bound, and who finds the destinations. Holds no state: one object serves everybody.

    `exchange` in the methods is how error texts name the exchange, such as "exchange 'orders' in vhost '/'"."""

    # As clients write it in exchange.declare.
    name: ClassVar[str]
    # For the management API's list of exchange types.
    description: ClassVar[str]

    @final
    def validate_arguments(self, arguments: dict[str, Any], exchange: str = "") -> None:
        """Refuse a declaration's arguments with a 406 if they make no sense."""
        text_argument(arguments, ALTERNATE_EXCHANGE, exchange)
        for name, check in DEDUPLICATION_CHECKS.items():
            if name in arguments and (reason := check(arguments[name])) is not None:
                raise SoftError(406, f"invalid arg '{name}' for {exchange}: {reason}")
        if MESSAGE_ID_ARGUMENT in arguments and arguments[MESSAGE_ID_ARGUMENT] not in MESSAGE_IDS:
            text = f"{shown_value(arguments[MESSAGE_ID_ARGUMENT])} is not {' or '.join(MESSAGE_IDS)}"
            raise SoftError(406, f"invalid arg '{MESSAGE_ID_ARGUMENT}' for {exchange}: {text}")
        self.validate_own_arguments(arguments, exchange)

    def validate_own_arguments(self, arguments: dict[str, Any], exchange: str) -> None:
        """The arguments of this type alone; unknown ones are nobody's business, as in RabbitMQ."""
        return

    def validate_binding(self, routing_key: str, arguments: dict[str, Any]) -> None:
        """Refuse a binding from an exchange of this type with a 406 if it makes no sense."""
        return

    @abstractmethod
    def matcher(self, arguments: dict[str, Any], pick: Pick) -> Matcher:
        """A matcher without bindings for an exchange with these arguments, which are valid."""


def text_argument(arguments: dict[str, Any], name: str, exchange: str = "") -> str | None:
    """An argument that must be a string if it is there at all; None if it is not."""
    if name not in arguments:
        return None
    value = arguments[name]
    if not isinstance(value, str):
        where = f" in {exchange}" if exchange else ""
        raise SoftError(406, f"invalid type '{shown_type(value)}' for arg '{name}'{where}")
    return value
