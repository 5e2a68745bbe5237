"""The largest message is 16 MiB, as in RabbitMQ 4, unless the node says otherwise. Leveret says so at the content
header; RabbitMQ takes the whole body first."""

import struct

import pytest

from tests.conformance.amqp_codec import FRAME_BODY, FRAME_HEADER
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain

MESSAGE_SIZE_MAX = 16 << 20


def begin_message(client: RawClient, queue: str, size: int) -> None:
    client.send(1, "basic.publish", routing_key=queue)
    client.send_frame(FRAME_HEADER, 1, struct.pack(">HHQ", 60, 0, size) + b"\0\0")


@pytest.mark.parametrize("size", [MESSAGE_SIZE_MAX + 1, 1 << 40, (1 << 64) - 1])
def test_a_message_too_large_is_refused_at_its_header(client: RawClient, topology: Topology, size: int) -> None:
    begin_message(client, topology.queue(client), size)
    text = f"PRECONDITION_FAILED - message size {size} is larger than configured max size {MESSAGE_SIZE_MAX}"
    assert client.refusal() == Refusal("channel", 406, text, 60, 40)


def test_the_body_of_a_refused_message_is_passed_over(client: RawClient, topology: Topology) -> None:
    """The client may have sent some of it before it heard; other channels are not disturbed."""
    client.open_channel(2)
    queue = topology.queue(client, channel=2)
    begin_message(client, queue, MESSAGE_SIZE_MAX + 1)
    for _ in range(3):
        client.send_frame(FRAME_BODY, 1, b"x" * 1000)
    assert client.refusal().scope == "channel"
    client.open_channel(1)
    client.publish(1, "", queue, b"small")
    assert drain(client, queue) == [b"small"]


def test_a_message_of_the_largest_size_is_accepted_at_its_header(client: RawClient, topology: Topology) -> None:
    begin_message(client, topology.queue(client), MESSAGE_SIZE_MAX)
    client.expect_quiet()
