"""The broker under test and connections to it. See `target` for how to run the suite against RabbitMQ."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.own_broker import running
from tests.conformance.raw_client import RawClient
from tests.conformance.target import ORACLE_IS_TARGET, RestartableTarget, Target, running_process, running_target
from tests.conformance.topology import Topology

Connect = Callable[..., RawClient]


def pytest_report_header() -> str:
    return f"conformance target: {'RabbitMQ' if ORACLE_IS_TARGET else 'Leveret'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="Leveret goes beyond RabbitMQ here")
    for item in items:
        if ORACLE_IS_TARGET and item.path.parent == Path(__file__).parent and item.path.name.startswith("test_leveret"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    with running_target() as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Leveret in this process, with its stream port, for all tests of a module."""
    with running(tmp_path_factory.mktemp("broker")) as made:
        yield made


@pytest.fixture
def server_process(tmp_path: Path) -> Iterator[RestartableTarget]:
    """A broker in a process of its own, for tests that restart it."""
    with running_process(tmp_path) as running:
        yield running


@pytest.fixture
def connect(target: Target) -> Iterator[Connect]:
    """Opens connections with one channel, number 1; keywords are passed to `RawClient.log_in`."""
    with ExitStack() as stack:

        def opened(**wishes: Any) -> RawClient:
            client = stack.enter_context(RawClient(target.host, target.port)).log_in(**wishes)
            client.open_channel(1)
            return client

        yield opened


@pytest.fixture
def client(connect: Connect) -> RawClient:
    """One connection, logged in, with channel 1 open."""
    return connect()


@pytest.fixture
def stranger(target: Target) -> Iterator[RawClient]:
    """A TCP connection on which nothing was said yet."""
    with RawClient(target.host, target.port) as raw:
        yield raw


@pytest.fixture
def topology(target: Target) -> Iterator[Topology]:
    """Makes queues and exchanges, and takes them away afterwards."""
    made = Topology()
    yield made
    if made.queues or made.exchanges:
        with RawClient(target.host, target.port) as raw:
            raw.log_in().open_channel(1)
            made.remove(raw)
