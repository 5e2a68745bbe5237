"""One Spark session for all tests of this folder, and brokers to read and write.

Without PySpark the folder is skipped. Starting Spark takes seconds, so there is one session; when tests are through,
all that it started has ended. A test that changes a setting of the session puts it back (`settings`)."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.testing import Broker
from tests.conformance.server_process import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.pipeline.lake import Lake

HERE = Path(__file__).parent
MISSING = importlib.util.find_spec("pyspark") is None
END_DEADLINE_S = 20.0
# Some tests start a Spark of their own, beside whatever else the machine does.
TIMEOUT_S = 300
# PySpark leaves its sockets and processes to the garbage collector, and has not caught up with pandas and Python.
PYSPARKS = (
    "ignore:unclosed:ResourceWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning:pyspark",
    "ignore::FutureWarning:pyspark",
    "ignore::UserWarning:pyspark",
)
Publish = Callable[..., None]


class _Skipped(pytest.Module):
    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip("PySpark is not installed: pip install leveret[spark]", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return _Skipped.from_parent(parent, path=module_path) if MISSING else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for one in PYSPARKS:
                item.add_marker(pytest.mark.filterwarnings(one))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            if item.get_closest_marker("long") is not None and not os.environ.get("LEVERET_SPARK_LONG"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make test-spark-long"))


# ---- Spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark import SparkContext

    from leveret.spark.pipeline.session import open_session

    # Spark's processes find the package that is tested, however this one found it.
    here = str(Path(sys.modules["leveret"].__path__[0]).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = open_session("tests", "local[2]")
    yield session
    gateway = SparkContext._gateway
    process = gateway.proc
    started = _below(process.pid)
    session.stop()
    # So that nothing of it is left: Spark would end its Java process when this one ends.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process.stdin.close()
    process.wait(END_DEADLINE_S)
    until = time.monotonic() + END_DEADLINE_S
    while (left := [pid for pid in started if _runs(pid)]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left, f"Spark's processes {left} outlived it"


def _below(pid: int) -> list[int]:
    """Processes that this one has started, and that they have started."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Changes settings of the session until the test ends."""
    before: dict[str, str | None] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    from leveret.spark.pipeline.lake import Lake

    return Lake(str(tmp_path / "lake"))


# ---- brokers


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """All tests of a file share it: they give their streams and queues names of their own."""
    with Broker() as running:
        yield running


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[Broker]:
    """A broker for one test, with a port and a folder that it keeps when it is stopped and started again."""
    ports = {"listen.port": free_port(), "listen.management_port": free_port()}
    broker = Broker({**ports, "data_dir": str(tmp_path / "broker")})
    broker.start()
    yield broker
    broker.stop()


def publish_to(broker: Broker, name: str, messages: Iterable[Any], **queue: Any) -> None:
    """Publishes to a stream, which is made if it is not there; with queue_type="classic" to a queue. Messages are
    octets, texts or whole Messages."""
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue(name, **{"queue_type": "stream", **queue}))
        made = [one if isinstance(one, Message) else Message(body=one) for one in messages]
        for one in made:
            if one.exchange is None and one.routing_key is None:
                one.routing_key = name
        connection.producer(exchange="").publish_batch(made)


@pytest.fixture
def publish(broker: Broker) -> Publish:
    """publish(name, messages, **arguments of Queue) to the broker of this file."""
    return lambda name, messages, **queue: publish_to(broker, name, messages, **queue)
