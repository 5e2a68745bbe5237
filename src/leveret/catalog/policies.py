"""Which policies apply to a queue or exchange, and what follows for its arguments.

A virtual host has a book of policies. Of those whose pattern is found in a name the one of highest priority applies,
alone; of equals the one whose name sorts first, where RabbitMQ leaves it to chance. An operator's policies are chosen
the same way and only lower limits. A policy with a key that a type of queue does not have passes over queues of that
type as a whole, as in RabbitMQ, so that the next one applies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from leveret.catalog.patterns import Pattern
from leveret.catalog.policy_keys import (
    APPLY_TO_QUEUES,
    ARCHIVE_AFTER,
    ARGUMENT,
    EXCHANGES,
    KEYS,
    MESSAGE_ID,
    NOT_OF_QUEUES,
    REPROCESS_EVERY,
)
from leveret.catalog.records import Arguments, ExchangeRecord, Policy, QueueRecord

REMEMBERED_MAX = 10_000
ALTERNATE_EXCHANGE = "alternate-exchange"
# Whether messages that are published without a message id get one.
MESSAGE_ID_ARGUMENT = "x-message-id"
_MIRRORING = frozenset(("ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"))
_OF_STREAMS = frozenset(("max-age", "stream-max-segment-size-bytes", "initial-cluster-size"))

# By type of queue: keys with which a policy does not apply to it.
UNSUPPORTED: dict[str, frozenset[str]] = {
    "classic": _OF_STREAMS | {"queue-leader-locator", "dead-letter-strategy"},
    "quorum": _OF_STREAMS | _MIRRORING | {"queue-mode", "queue-master-locator"},
    "stream": _MIRRORING
    | {
        "expires",
        "message-ttl",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
        "max-length",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "overflow",
        "queue-mode",
        "queue-master-locator",
        "delivery-limit",
        "retry-delays",
        "parking-lot",
        REPROCESS_EVERY,
        ARCHIVE_AFTER,
        "message-deduplication",
        "cache-size",
        "cache-ttl",
        # A stream is read by offsets: nothing is taken from it.
        "federation-upstream",
        "federation-upstream-set",
        "federation-upstream-pattern",
    },
}
# By type of queue: keys of which a policy's value counts and not the declared argument.
POLICY_WINS: dict[str, frozenset[str]] = {
    "quorum": frozenset(("overflow", "expires")),
    "stream": frozenset(("max-length-bytes", "max-age", "stream-max-segment-size-bytes")),
}
_NONE: frozenset[str] = frozenset()


class Applied(NamedTuple):
    """The two policies of one queue or exchange; either can be missing."""

    policy: Policy | None = None
    operator_policy: Policy | None = None

    @property
    def name(self) -> str | None:
        return None if self.policy is None else self.policy.name

    @property
    def operator_name(self) -> str | None:
        return None if self.operator_policy is None else self.operator_policy.name

    @property
    def definition(self) -> Arguments:
        """What the two come to, as the field effective_policy_definition shows it."""
        return merged_definition(self.policy, self.operator_policy)


NOTHING_APPLIED = Applied()


class _Ranked(NamedTuple):
    policy: Policy
    # None if it does not compile: an older version may have taken what this one does not. It applies to nothing.
    pattern: Pattern | None
    keys: frozenset[str]
    to_queues: bool
    # The one type of queue it is for, or None.
    kind: str | None
    to_exchanges: bool


class PolicyBook:
    """The policies of one virtual host. Changed by the catalog only."""

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        # By (operator, name)
        self._policies: dict[tuple[bool, str], Policy] = {}
        # The users' and the operators', first the one that is asked first.
        self._ranked: tuple[list[_Ranked], list[_Ranked]] = ([], [])
        # What applies, by name and by type of queue, empty for an exchange: lists ask for all of it again and again.
        self._known: dict[tuple[str, str], Applied] = {}
        for policy in policies:
            self.put(policy)

    def __len__(self) -> int:
        return len(self._policies)

    def all(self) -> list[Policy]:
        return list(self._policies.values())

    def find(self, name: str, operator: bool = False) -> Policy | None:
        return self._policies.get((operator, name))

    def put(self, policy: Policy) -> None:
        self.remove(policy.name, policy.operator)
        self._known.clear()
        self._policies[policy.operator, policy.name] = policy
        ranked = self._ranked[policy.operator]
        ranked.append(_rank(policy))
        ranked.sort(key=lambda one: (-one.policy.priority, one.policy.name))

    def remove(self, name: str, operator: bool = False) -> Policy | None:
        self._known.clear()
        policy = self._policies.pop((operator, name), None)
        if policy is not None:
            self._ranked[operator][:] = [one for one in self._ranked[operator] if one.policy is not policy]
        return policy

    def of_queue(self, record: QueueRecord) -> Applied:
        if not self._policies:
            return NOTHING_APPLIED
        known = self._known.get((record.name, record.kind))
        if known is None:
            users, operators = self._ranked
            known = Applied(_first_for_queue(users, record), _first_for_queue(operators, record))
            self._remember(record.name, record.kind, known)
        return known

    def of_exchange(self, record: ExchangeRecord) -> Applied:
        if not self._policies:
            return NOTHING_APPLIED
        known = self._known.get((record.name, ""))
        if known is None:
            users, operators = self._ranked
            known = Applied(_first_for_exchange(users, record.name), _first_for_exchange(operators, record.name))
            self._remember(record.name, "", known)
        return known

    def _remember(self, name: str, kind: str, applied: Applied) -> None:
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[name, kind] = applied


def _rank(policy: Policy) -> _Ranked:
    try:
        pattern: Pattern | None = Pattern(policy.pattern)
    except ValueError:
        pattern = None
    return _Ranked(
        policy,
        pattern,
        frozenset(policy.definition),
        policy.apply_to in APPLY_TO_QUEUES,
        APPLY_TO_QUEUES.get(policy.apply_to),
        policy.apply_to in ("all", EXCHANGES),
    )


def _first_for_queue(ranked: list[_Ranked], record: QueueRecord) -> Policy | None:
    unsupported = UNSUPPORTED.get(record.kind, _NONE)
    for one in ranked:
        if one.to_queues and one.kind in (None, record.kind) and one.keys.isdisjoint(unsupported):
            if one.pattern is not None and one.pattern.found_in(record.name):
                return one.policy
    return None


def _first_for_exchange(ranked: list[_Ranked], name: str) -> Policy | None:
    for one in ranked:
        if one.to_exchanges and one.pattern is not None and one.pattern.found_in(name):
            return one.policy
    return None


def merged_definition(policy: Policy | None, operator_policy: Policy | None) -> Arguments:
    """The policy's definition with an operator's limits, where those are lower or the only ones."""
    merged = {} if policy is None else dict(policy.definition)
    if operator_policy is not None:
        for key, limit in operator_policy.definition.items():
            merged[key] = min(merged[key], limit) if key in merged else limit
    return merged


def effective_queue_arguments(record: QueueRecord, policy: Policy | None, operator_policy: Policy | None) -> Arguments:
    """The arguments a queue lives by, under the names of declared arguments: those it was declared with, changed by the
    policies that apply to it."""
    effective = dict(record.arguments)
    policy_wins = POLICY_WINS.get(record.kind, _NONE)
    for key, value in merged_definition(policy, operator_policy).items():
        if key in NOT_OF_QUEUES:
            continue
        argument = f"x-{key}"
        if argument not in effective or key in policy_wins:
            effective[argument] = value
        else:
            effective[argument] = _resolved(KEYS[key].rule, effective[argument], value)
    return effective


def _resolved(rule: str, argument: Any, value: Any) -> Any:
    """One value of a declared argument and a policy's."""
    if rule == ARGUMENT:
        return argument
    return min(argument, value)


def effective_exchange_arguments(
    record: ExchangeRecord, policy: Policy | None, operator_policy: Policy | None
) -> Arguments:
    """The arguments an exchange lives by. What was declared stays; the default exchange takes no alternate exchange,
    though policies are shown for it too."""
    definition = merged_definition(policy, operator_policy)
    added: Arguments = {}
    if ALTERNATE_EXCHANGE in definition and record.name != "":
        added[ALTERNATE_EXCHANGE] = definition[ALTERNATE_EXCHANGE]
    if MESSAGE_ID in definition:
        added[MESSAGE_ID_ARGUMENT] = definition[MESSAGE_ID]
    return {**added, **record.arguments} if added else record.arguments
