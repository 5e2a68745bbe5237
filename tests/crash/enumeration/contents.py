"""Takes everything out of a broker that has just started, and reads its streams from end to end."""

import time
from typing import Final

from tests.crash.client import Closed, CrashClient, Delivery, Refused, connected
from tests.crash.enumeration.evidence import Contents
from tests.crash.enumeration.topology import QUEUES, STREAMS
from tests.crash.messages import MessageId, id_of
from tests.crash.stream_checkers import State, StreamHistory
from tests.crash.stream_load import read_state

_WAIT_S: Final = 60.0


def contents_of(port: int) -> tuple[Contents, list[str]]:
    """And what is wrong with the way it came."""
    contents, wrong = Contents(), list[str]()
    for queue in QUEUES:
        contents.queues[queue] = _taken(port, queue, wrong)
    for stream in STREAMS:
        contents.streams[stream] = _state(port, stream, wrong)
    return contents, wrong


def _count(client: CrashClient, queue: str) -> int | None:
    try:
        count = client.call(1, "queue.declare", queue=queue, passive=True)["message_count"]
    except Refused as refusal:
        if "404" not in str(refusal):
            raise
        return None
    assert isinstance(count, int)
    return count


def _taken(port: int, queue: str, wrong: list[str]) -> list[MessageId] | None:
    """All messages of a queue that nobody else uses; None if there is no such queue."""
    with connected(port) as client:
        count = _count(client, queue)
        if not count:
            return None if count is None else []
        found: list[MessageId] = []
        came = 0
        client.send(1, "basic.consume", queue=queue, consumer_tag="all", no_ack=True)
        deadline = time.monotonic() + _WAIT_S
        while came < count:
            if time.monotonic() > deadline:
                wrong.append(f"lost: {queue} says that it has {count} messages and gave {came}")
                break
            for item in client.incoming(0.5):
                if isinstance(item, Closed):
                    wrong.append(f"lost: {queue} gave {came} of {count}, then {item.reason}")
                    return found
                if isinstance(item, Delivery):
                    came += 1
                    message = id_of(item.body)
                    if message is None:
                        wrong.append(f"damaged: {queue} gave {item.body[:40]!r}")
                    else:
                        found.append(message)
    return found


def _state(port: int, stream: str, wrong: list[str]) -> State | None:
    with connected(port) as client:
        if _count(client, stream) is None:
            return None
    try:
        return read_state(port, StreamHistory(), stream)
    except AssertionError as error:
        wrong.append(f"lost: {error}")
        return State(0, stream, 0, 0, {})
