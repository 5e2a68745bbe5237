"""The stream queue type: a log that consumers read without taking anything away, from any place and at any time."""

from __future__ import annotations

from leveret.catalog.policy_keys import SEGMENT_BYTES_MAX, age_s
from leveret.catalog.records import Arguments, QueueRecord
from leveret.core.codec.names import name_octets
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.core.stream.log import SEGMENT_BYTES
from leveret.core.stream.queue import StreamQueue
from leveret.errors import SoftError
from leveret.queues.queue_type import QueueStorage, validate_arguments

# Longer is for ever: RabbitMQ has no limit.
AGE_MS_MAX = 1 << 62


class Stream:
    name = "stream"
    module = "rabbit_stream_queue"
    server_named = False
    needs_disk = True
    arguments = frozenset(
        (
            "x-queue-type",
            "x-max-length-bytes",
            "x-max-age",
            "x-stream-max-segment-size-bytes",
            "x-initial-cluster-size",
            "x-queue-leader-locator",
        )
    )
    compared: tuple[str, ...] = (
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    )

    def validate(self, record: QueueRecord, what: str) -> None:
        validate_arguments(self, record, what)
        for name, given in (
            ("auto-delete", record.auto_delete),
            ("exclusive-owner", record.owner),
            ("non-durable", not record.durable),
        ):
            if given:
                raise SoftError(406, f"invalid property '{name}' for {what}")
        if record.arguments.get("x-stream-max-segment-size-bytes", 0) > SEGMENT_BYTES_MAX:
            raise SoftError(406, "Exceeded max value for x-stream-max-segment-size-bytes")

    def create(
        self, record: QueueRecord, queue_storage: QueueStorage | None = None, office: Office | None = None
    ) -> Queue:
        assert queue_storage is not None and office is not None
        name = name_octets(record.name)
        return StreamQueue(name, record, queue_storage.streams.create(record.id), office)

    def govern(self, queue: StreamQueue, arguments: Arguments, since_ms: int = 0) -> None:
        log = queue.log
        segment_bytes = arguments.get("x-stream-max-segment-size-bytes", SEGMENT_BYTES) or SEGMENT_BYTES
        # Taken as it is given, as RabbitMQ does, and never used below what the node allows: wherever it comes from.
        log.segment_bytes = max(segment_bytes, log.stream_store.segment_bytes_min)
        log.max_bytes = arguments.get("x-max-length-bytes", -1)
        log.max_age_ms = min(1000 * (age_s(arguments.get("x-max-age")) or 0), AGE_MS_MAX)
        log.stream_store.limits_changed(log)
