"""Many large bodies that end in one chunk: they go to the log as the disk takes them, not all in one batch."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.conformance.amqp_codec import FRAME_BODY, FRAME_HEADER, encode_frame, encode_properties
from tests.conformance.own_broker import PERSISTENT, connected, running

CHANNELS = 14
BODY_BYTES = 8 << 20
# As core.log.journal has it.
OVERFULL_BYTES = 64 << 20
UNBOUNDED = {"limits__unfinished_per_connection_bytes_max": 0}


def test_a_chunk_that_completes_many_large_messages_waits_for_the_disk(tmp_path: Path) -> None:
    with running(tmp_path, **UNBOUNDED) as broker, connected(broker) as client:
        client.call(1, "queue.declare", queue="large", durable=True)
        size = client.frame_max - 8
        for number in range(2, CHANNELS + 2):
            client.open_channel(number)
            client.call(number, "confirm.select")
            client.send(number, "basic.publish", exchange="", routing_key="large")
            head = struct.pack(">HHQ", 60, 0, BODY_BYTES) + encode_properties(PERSISTENT)
            client.send_frame(FRAME_HEADER, number, head)
            for at in range(0, BODY_BYTES - 1, size):
                client.send_frame(FRAME_BODY, number, bytes(min(size, BODY_BYTES - 1 - at)))
        before = broker.call(lambda node: node.store.journal.synced_batch)
        client.send_bytes(b"".join(encode_frame(FRAME_BODY, number, b"x") for number in range(2, CHANNELS + 2)))
        confirmed = {client.read().channel for _ in range(CHANNELS)}
        assert confirmed == set(range(2, CHANNELS + 2))
        assert broker.call(lambda node: node.broker.vhosts["/"].queues[b"large"].ready_count()) == CHANNELS
        # All in one chunk would be all in one batch.
        batches = broker.call(lambda node: node.store.journal.synced_batch) - before
        assert batches >= CHANNELS * BODY_BYTES // (OVERFULL_BYTES + BODY_BYTES) + 1
