"""The HTTP API of Leveret, or of RabbitMQ as the oracle, behind one face."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.rabbitmq_node import RabbitNode
from tests.conformance.server_process import end_process, free_port, spawn
from tests.conformance.target import ORACLE_IS_TARGET

_PLUGINS = "[rabbitmq_management,rabbitmq_shovel_management,rabbitmq_federation_management].\n"


@contextmanager
def running_rabbitmq_api() -> Iterator[str]:
    """The address of a RabbitMQ's API."""
    if shutil.which("rabbitmq-server") is None:
        pytest.skip("rabbitmq-server is missing; install with: apt-get install rabbitmq-server")
    directory = Path(tempfile.mkdtemp(prefix="leveret-rabbitmq-"))
    node = RabbitNode(directory)
    port = free_port()
    (directory / "enabled_plugins").write_text(_PLUGINS)
    with (directory / "rabbitmq.conf").open("a") as conf:
        conf.write(f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\n")
    port_mapper = spawn(["epmd"], node.log, node.environment)
    try:
        node.start()
        yield f"http://127.0.0.1:{port}"
    finally:
        node.stop()
        end_process(port_mapper)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running_api() -> Iterator[str]:
    """The address of the API that the suite is about."""
    if ORACLE_IS_TARGET:
        with running_rabbitmq_api() as url:
            yield url
    else:
        from leveret.testing import Broker

        with Broker({"auth.failures_max": 1_000_000}) as broker:
            yield broker.management_url
