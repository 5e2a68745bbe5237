"""Messages that come to an publish path as a whole, not in frames."""

from __future__ import annotations

import pytest

from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.errors import SoftError
from tests.unit.core.takers import ready_bodies as bodies
from tests.unit.queues.dataplane import Workbench


def test_a_message_that_comes_whole_says_where_it_goes_before_it_does() -> None:
    bench = Workbench(body_bytes_max=10)
    queue = bench.add_queue()
    publish_path = bench.open_channel().publish_path
    publish_path.start_transaction()
    properties = parse_properties(encode_properties(app_id="me"))
    publish_path.offer(b"\x00\x01q", properties, b"hello")
    ((waiting, exchange, targets, mandatory),) = publish_path.pending
    assert (waiting.body, exchange.name, targets, mandatory) == (b"hello", b"", (queue,), False)
    assert bodies(queue) == []
    assert publish_path.commit()
    assert bodies(queue) == [b"hello"]
    with pytest.raises(SoftError, match="larger than configured max size 10"):
        publish_path.offer(b"\x00\x01q", properties, b"x" * 11)
