"""A broker of a test's own in this process, which it may stop and start again, and a look inside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.raw_client import RawClient

PERSISTENT = {"delivery_mode": 2}


@contextmanager
def running(directory: Path, **settings: object) -> Iterator[Any]:
    """Leveret with its data there. Settings are written with two underscores for the dot."""
    # Not at the top of the file, so that the oracle can be asked where Leveret is not built.
    from leveret.testing import Broker

    named = {name.replace("__", "."): value for name, value in settings.items()}
    with Broker({"data_dir": str(directory), **named}) as broker:
        yield broker


@contextmanager
def connected(broker: Any) -> Iterator[RawClient]:
    """A connection with channel 1 open."""
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        yield client


def of_queue(broker: Any, name: str, read: Callable[[Any], Any]) -> Any:
    """Reads something of a live queue, on the broker's thread."""
    return broker.call(lambda node: read(node.broker.vhosts["/"].queues[name.encode()]))


def of_exchange(broker: Any, name: str, read: Callable[[Any], Any]) -> Any:
    return broker.call(lambda node: read(node.broker.vhosts["/"].exchanges[name.encode()]))


def delayed_count(broker: Any, queue: str) -> int:
    count: int = of_queue(broker, queue, lambda live: live.delayed_count())
    return count


def held_count(broker: Any, exchange: str) -> int:
    """How many messages wait in a delayed exchange."""
    count: int = of_exchange(broker, exchange, lambda live: live.holder.delays.count)
    return count
