"""Which streams a super stream consists of, as the broker tells it. Never guesses by names: a partition may have any
name, and one that was deleted leaves a hole behind."""

from __future__ import annotations

import json

from leveret.client.errors import ChannelClosed, NoPartitions
from leveret.client.streams.stream_start import answered, is_leveret
from leveret.client.transport.link import Link

__all__ = ["find_partitions"]

QUERY = "x-super-stream-query"
NOT_FOUND = 404


async def find_partitions(link: Link, super_stream: str) -> dict[str, int]:
    """The names of the streams with their numbers, in their order. Raises NoPartitions."""
    if not is_leveret(link):
        raise NoPartitions(
            f"this broker cannot be asked over AMQP for the partitions of the super stream {super_stream!r}: "
            "name them, all of them"
        )
    try:
        answer = await answered(link, "", {QUERY: super_stream}, f"asking for the partitions of {super_stream!r}")
    except ChannelClosed as error:
        if error.code != NOT_FOUND:
            raise
        if "no previously declared queue" in str(error):
            raise NoPartitions(
                f"this version of the broker cannot tell the partitions of the super stream {super_stream!r}: "
                "name them, all of them, or update the broker"
            ) from None
        raise NoPartitions(f"there is no super stream {super_stream!r}: no exchange has this name") from None
    found = {str(one["stream"]): int(one["partition"]) for one in json.loads(answer.body)}
    if not found:
        raise NoPartitions(f"the super stream {super_stream!r} has no partitions: no stream is bound to the exchange")
    return found
