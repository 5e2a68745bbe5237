"""basic.consume without a queue and with x-super-stream-query: which streams are the partitions of a super stream.

One message comes, and then basic.cancel. Its body is JSON: a list of objects with `stream`, its name, and `partition`,
its number, in their order. A super stream is an exchange here, as for the stream protocol; like there, every user of
the virtual host may ask, and reading a partition takes the right to read it."""

from __future__ import annotations

import json
from typing import Any

from leveret.broker.super_streams import SuperStreams
from leveret.core.codec.message import new_message
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.connection.consumer import Consumer
from leveret.core.stream.queue import octets_of
from leveret.errors import SoftError
from leveret.session.channel import ChannelSession
from leveret.wire.basic_methods import BasicConsume, BasicConsumeOk

__all__ = ["QUERY", "answer_super_stream_query"]

QUERY = "x-super-stream-query"


def answer_super_stream_query(channel_session: ChannelSession, method: BasicConsume, tag: str) -> None:
    name: Any = method.arguments[QUERY]
    key = octets_of(name)
    if not isinstance(name, str) or key is None:
        raise SoftError(406, f"invalid arg '{QUERY}': expected the name of a super stream, of 1 to 255 octets")
    if method.queue:
        raise SoftError(406, f"invalid arg '{QUERY}': it is asked without a queue, and '{method.queue}' is named")
    found = SuperStreams(channel_session.session.broker).partition_numbers(channel_session.vhost.name, name)
    # ASCII, so that names that are not UTF-8 come back as they are.
    body = json.dumps([{"stream": stream, "partition": number} for stream, number in found.items()]).encode()
    octets = name_octets(tag)
    # Never among the channel's consumers: it has ended before the next method is read.
    asking = Consumer(channel_session.core, None, octets, True, False, 0, 0, 0, method.arguments)
    if not method.nowait:
        channel_session.send(BasicConsumeOk(tag))
    properties = parse_properties(encode_properties(content_type="application/json"))
    asking.hand(new_message(b"", key, properties, body), False)
    channel_session.consumer_lost(octets)
