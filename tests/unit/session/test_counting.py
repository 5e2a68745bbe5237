"""What sessions count: publishers that are held up, channels that come and go, and what stays when a client is lost."""

from __future__ import annotations

from leveret.operations.statistics.totals import Totals
from tests.unit.session.clients import Scene, eventually


def totals(scene: Scene) -> Totals:
    found: Totals = scene.broker.call(lambda node: node.statistics.totals())
    return found


def test_a_publisher_that_is_held_up_is_counted_until_the_alarm_ends(scene: Scene) -> None:
    client, quiet = scene.connect(), scene.connect()
    client.call(1, "queue.declare", queue="q")
    quiet.call(1, "queue.declare", queue="q")
    before = totals(scene)
    scene.broker.raise_alarm("memory")
    client.publish(1, "", "q", b"held up")
    client.expect(0, "connection.blocked")
    during = totals(scene)
    assert (during.publishers_blocked, during.publishers_blocked_total) == (1, before.publishers_blocked_total + 1)
    scene.broker.clear_alarm("memory")
    client.expect(0, "connection.unblocked")
    after = totals(scene)
    assert after.publishers_blocked == 0
    assert after.publishers_blocked_seconds > before.publishers_blocked_seconds
    assert totals(scene).publishers_blocked_seconds == after.publishers_blocked_seconds


def test_a_publisher_that_goes_while_it_is_held_up_is_held_up_no_longer(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    scene.broker.raise_alarm("memory")
    client.publish(1, "", "q")
    client.expect(0, "connection.blocked")
    assert totals(scene).publishers_blocked == 1
    client.socket.close()
    scene.broker.clear_alarm("memory")
    eventually(lambda: totals(scene).publishers_blocked == 0)


def test_channels_are_counted_as_they_come_and_go(scene: Scene) -> None:
    before = totals(scene).churn
    client = scene.connect()
    client.open_channel(2)
    client.call(2, "channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    # An error closes the other one.
    client.send(1, "queue.declare", queue="nowhere", passive=True)
    client.expect(1, "channel.close")
    client.send(1, "channel.close-ok")
    client.open_channel(3)
    after = totals(scene).churn
    assert after["channel_created"] - before["channel_created"] == 3
    assert after["channel_closed"] - before["channel_closed"] == 2
    assert after["queue_declared"] == before["queue_declared"], "to ask whether it exists is not to declare it"
    client.socket.close()
    eventually(lambda: totals(scene).churn["channel_closed"] == after["channel_closed"] + 1)


def test_a_client_that_is_lost_leaves_its_counts(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="lost")
    for _ in range(5):
        client.publish(1, "", "lost", b"12345")
    client.call(1, "basic.get", queue="lost", no_ack=True)
    before = totals(scene)
    client.socket.close()
    eventually(lambda: totals(scene).churn["connection_closed"] > before.churn["connection_closed"])
    after = totals(scene)
    assert after.message_stats["publish"] == before.message_stats["publish"] >= 5
    assert after.message_stats["get_no_ack"] == before.message_stats["get_no_ack"] >= 1
    assert after.bytes_received >= before.bytes_received
