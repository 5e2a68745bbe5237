"""The broker under test, as the conformance suite has it: Leveret, or RabbitMQ as the oracle.

Every scenario here runs unchanged against both; `LEVERET_CONFORMANCE_TARGET=rabbitmq` chooses the oracle."""

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import Connect, client, connect, target, topology
from tests.conformance.target import Target
from tests.conformance.topology import unique_name
from tests.contract.letters import Publisher, Table

__all__ = ["client", "connect", "target", "topology"]


class Policies:
    """Policies of one test: for one queue or exchange each, and gone when the test ends."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.set_now: dict[str, bool] = {}

    def set(
        self, subject: str, definition: Table, *, priority: int = 0, apply_to: str = "all", operator: bool = False
    ) -> str:
        """Sets a policy for what has this name; gives the policy's own."""
        name = unique_name("policy")
        self.set_now[name] = operator
        self.target.set_policy(
            name, f"^{subject}$", definition, priority=priority, apply_to=apply_to, operator=operator
        )
        return name

    def clear(self, name: str) -> None:
        self.target.clear_policy(name, operator=self.set_now.pop(name))

    def clear_all(self) -> None:
        for name in list(self.set_now):
            self.clear(name)


@pytest.fixture
def publisher(connect: Connect) -> Publisher:
    """A connection of its own that publishes with confirms, so that verdicts and deliveries do not mix."""
    return Publisher(connect())


@pytest.fixture
def policies(target: Target) -> Iterator[Policies]:
    made = Policies(target)
    yield made
    made.clear_all()
