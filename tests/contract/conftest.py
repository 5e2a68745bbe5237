"""The broker under test, as the conformance suite has it: Leveret, or RabbitMQ as the oracle.

Every scenario here runs unchanged against both; `LEVERET_CONFORMANCE_TARGET=rabbitmq` chooses the oracle."""

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.conftest import Connect, client, connect, target, topology
from tests.conformance.target import Target

pytest.register_assert_rewrite("tests.contract.letters")
from tests.contract.letters import Publisher  # noqa: E402

__all__ = ["client", "connect", "target", "topology"]

SetPolicy = Callable[..., None]


@pytest.fixture
def publisher(connect: Connect) -> Publisher:
    """A connection of its own that publishes with confirms, so that verdicts and deliveries do not mix."""
    return Publisher(connect())


@pytest.fixture
def set_policy(target: Target) -> Iterator[SetPolicy]:
    """Sets policies as `Target.set_policy` does, and clears them when the test ends."""
    made: dict[tuple[str, bool], None] = {}

    def put(name: str, *words: object, operator: bool = False, **more: object) -> None:
        made[name, operator] = None
        target.set_policy(name, *words, operator=operator, **more)  # type: ignore[arg-type]

    yield put
    for name, operator in made:
        target.clear_policy(name, operator=operator)
