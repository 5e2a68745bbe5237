"""Policies as operators see them: set, listed, cleared, and which of them applies to what.

Checks, then changes the catalog; what follows for live queues and exchanges is their virtual host's part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.policies import Applied
from leveret.catalog.policy_keys import check_policy
from leveret.catalog.records import ExchangeRecord, Policy, QueueRecord
from leveret.errors import InvalidPolicy


class Policies:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def put(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> bool:
        """Sets a policy or replaces the one of that name; whether it is new. Raises InvalidPolicy."""
        policy = Policy(vhost, name, pattern, apply_to, priority, definition, operator)
        check_policy(policy)
        # The record is kept, and whoever gave the definition may change theirs.
        policy = msgspec.structs.replace(policy, definition=dict(definition), set_at_ms=self._broker.clock.now_ms())
        book = self._broker.catalog.policies.get(vhost)
        if book is None:
            raise InvalidPolicy("vhost", f"there is no virtual host '{vhost}'")
        existing = book.find(name, operator)
        if existing is None:
            self._broker.limits.topology.check_policies(vhost)
        if existing is None or msgspec.structs.replace(existing, set_at_ms=policy.set_at_ms) != policy:
            self._broker.apply(commands.PutPolicy(policy))
        return existing is None

    def delete(self, vhost: str, name: str, operator: bool = False) -> bool:
        """Whether there was such a policy."""
        if self.find(vhost, name, operator) is None:
            return False
        self._broker.apply(commands.DeletePolicy(vhost, name, operator))
        return True

    def find(self, vhost: str, name: str, operator: bool = False) -> Policy | None:
        book = self._broker.catalog.policies.get(vhost)
        return None if book is None else book.find(name, operator)

    def list(self, vhost: str | None = None, operator: bool = False) -> list[Policy]:
        """By virtual host and name; of one virtual host or of all."""
        return sorted(self._each(vhost, operator), key=lambda policy: (policy.vhost, policy.name))

    def _each(self, vhost: str | None, operator: bool) -> Iterator[Policy]:
        for name, book in self._broker.catalog.policies.items():
            if vhost in (None, name):
                yield from (policy for policy in book.all() if policy.operator == operator)

    def of_queue(self, record: QueueRecord) -> Applied:
        return self._broker.catalog.policies[record.vhost].of_queue(record)

    def of_exchange(self, record: ExchangeRecord) -> Applied:
        return self._broker.catalog.policies[record.vhost].of_exchange(record)
