"""What sessions of the stream protocol count: messages both ways, and what they refuse, by its code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.operations.statistics.totals import STREAM_TYPE, Totals
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code, OffsetType
from leveret.wire.stream_commands import OffsetSpec
from tests.conformance.raw_stream_client import RawStreamClient
from tests.unit.core.stream_client_bench import publish_frame, simple
from tests.unit.session.stream.scene import connected, eventually, filled, publish


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def totals(broker: Broker) -> Totals:
    found: Totals = broker.call(lambda node: node.statistics.totals())
    return found


def test_messages_are_counted_both_ways_and_stay_when_clients_go(broker: Broker) -> None:
    with connected(broker) as client:
        filled(client, "s", b"1")
        client.do(commands.DeclarePublisher, 1, "", "s")
        publish(client, 1, b"2", b"3")
        client.do(commands.Subscribe, 1, "s", OffsetSpec(OffsetType.FIRST), 10, {})
        eventually(lambda: totals(broker).deliveries["stream", STREAM_TYPE].delivered == 3)
        here = totals(broker).protocols["stream"]
        assert (here.received, here.received_confirm, here.confirmed, here.routed) == (3, 3, 3, 3)
        assert (here.publishers, here.consumers) == (1, 1)
    eventually(lambda: totals(broker).connections == 0)
    after = totals(broker)
    assert (after.protocols["stream"].received, after.protocols["stream"].confirmed) == (3, 3)
    assert (after.protocols["stream"].publishers, after.protocols["stream"].consumers) == (0, 0)
    assert after.deliveries["stream", STREAM_TYPE].delivered == 3
    assert after.sizes["stream"].count == 3
    assert (after.message_stats["publish"], after.message_stats["confirm"], after.message_stats["deliver"]) == (3, 3, 3)


def test_what_is_refused_is_counted_by_its_code(broker: Broker) -> None:
    with RawStreamClient(broker.host, broker.stream_port) as stranger:
        assert stranger.authenticate("guest", "wrong") == Code.AUTHENTICATION_FAILURE
    with connected(broker) as client:
        assert client.code(commands.DeclarePublisher, 1, "", "nowhere") == Code.STREAM_DOES_NOT_EXIST
        assert client.code(commands.DeletePublisher, 9) == Code.PUBLISHER_DOES_NOT_EXIST
        assert client.code(commands.Unsubscribe, 9) == Code.SUBSCRIPTION_ID_DOES_NOT_EXIST
        client.send_octets(publish_frame(9, simple(1, b"x")))
        client.receive(commands.PublishError)

        def refused() -> dict[str, int]:
            return {name: count for name, count in totals(broker).stream_errors.items() if count}

        expected = {
            "authentication_failure": 1,
            "stream_does_not_exist": 1,
            "publisher_does_not_exist": 2,
            "subscription_id_does_not_exist": 1,
        }
        assert refused() == expected
    eventually(lambda: totals(broker).connections == 0)
    assert refused() == expected, "also of those who are gone"
