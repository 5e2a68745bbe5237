"""Looking into queues over HTTP without changing anything, and pausing them."""

from __future__ import annotations

import base64
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.conformance.http_scene import Scene
from tests.conformance.own_broker import running


@pytest.fixture
def scene(broker: Any) -> Scene:
    return Scene(broker)


def peek(scene: Scene, name: str, query: str = "") -> list[dict[str, Any]]:
    reply = scene.api.get(f"/queues/%2F/{name}/peek?{query}")
    assert reply.status == 200, reply
    return list(reply.body)


def numbers(scene: Scene, name: str) -> tuple[int, ...]:
    return scene.of_queue(  # type: ignore[no-any-return]
        name,
        lambda queue: (
            queue.ready_count(),
            queue.unacked_count,
            queue.delivered_total,
            queue.redelivered_total,
            queue.requeued_total,
            queue.got_total,
            queue.get_empty_total,
        ),
    )


# ---- what is ready


def test_peeking_changes_nothing(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, *map(str, range(30)))
    before = numbers(scene, name)
    for _ in range(3):
        seen = peek(scene, name, "offset=5&count=4")
        assert [one["payload"] for one in seen] == ["5", "6", "7", "8"]
    assert [one["payload"] for one in peek(scene, name)] == [str(number) for number in range(10)]
    assert peek(scene, name, "offset=30") == []
    assert numbers(scene, name) == before
    got = scene.get(name, count=30).body
    assert [(one["payload"], one["redelivered"]) for one in got] == [(str(number), False) for number in range(30)]


def test_what_is_shown_of_a_message(scene: Scene) -> None:
    name = scene.queue()
    before = time.time() * 1000
    scene.publish(name, "héllo", properties={"headers": {"h": 1}})
    reply = scene.api.get(f"/queues/%2F/{name}/peek?truncate=2")
    (seen,) = reply.body
    assert before - 1000 < seen.pop("arrived_at") < before + 10_000
    assert seen == {
        "payload_bytes": 6,
        "exchange": "",
        "routing_key": name,
        "properties": {"headers": {"h": 1}},
        "payload": "h",
        "payload_encoding": "string",
        "redelivered": False,
        "position": 1,
        "delivery_count": 0,
    }
    assert reply.headers["cache-control"] == "no-store"


def test_headers_of_every_type_are_shown(scene: Scene) -> None:
    from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
    from leveret.core.codec.message import new_message
    from leveret.core.codec.properties import encode_properties, parse_properties

    name = scene.queue()
    plain = {
        "text": "é", "true": True, "int": -5, "long": 2**40, "double": 1.5, "void": None, "decimal": Decimal("1.25"),
        "list": [1, "a", [None]], "table": {"x": {"y": 1}}, "b": Int8(-1), "B": UInt8(1), "s": Int16(-2),
        "u": UInt16(2), "i": UInt32(3), "l": Int64(4), "f": Float32(0.5), "T": Timestamp(1577836800),
    }  # fmt: skip
    raw = encode_properties(headers={**plain, "octets": b"\xff\x00", "letters": b"abc", "broken": "\udcff"})
    message = new_message(b"", name.encode(), parse_properties(raw), b"")
    scene.of_queue(name, lambda queue: queue.publish(message))
    (seen,) = peek(scene, name)
    assert seen["properties"]["headers"] == {
        **plain,
        "octets": "Not UTF-8, base64 is: /wA=",
        "letters": "abc",
        "broken": "Not UTF-8, base64 is: /w==",
        "decimal": 1.25,
    }


def test_a_long_queue_on_disk_is_read_in_passing(scene: Scene) -> None:
    name = scene.queue({"x-queue-mode": "lazy"})
    with scene.channel() as channel:
        channel.confirm_delivery()
        for number in range(3000):
            channel.basic_publish("", name, b"%d " % number + b"x" * 1000, pika.BasicProperties(delivery_mode=2))
    before = numbers(scene, name)
    begun = time.perf_counter()
    seen = peek(scene, name, "offset=1500&count=1000&truncate=8")
    assert time.perf_counter() - begun < 50
    assert [one["payload"].split()[0] for one in seen] == [str(number) for number in range(1500, 2500)]
    assert peek(scene, name, "offset=2999")[0]["payload"].startswith("2999 ")
    assert numbers(scene, name) == before
    in_memory = scene.of_queue(name, lambda queue: len(queue.ready_entries()))
    assert in_memory == 0, "what was read did not stay"
    assert scene.get(name).body[0]["payload"].startswith("0 ")


def test_what_came_back_is_shown_first_and_in_order(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, *map(str, range(20)))
    with scene.channel() as channel:
        for _ in range(10):
            channel.basic_get(name)
    time.sleep(0.1)
    seen = peek(scene, name, "count=100")
    assert [one["payload"] for one in seen] == [str(number) for number in range(20)]
    assert [one["redelivered"] for one in seen] == [True] * 10 + [False] * 10
    assert [one["payload"] for one in peek(scene, name, "offset=7&count=6")] == ["7", "8", "9", "10", "11", "12"]


def test_priorities_are_shown_as_they_would_be_delivered(scene: Scene) -> None:
    name = scene.queue({"x-max-priority": 5})
    for number in range(6):
        scene.publish(name, str(number), properties={"priority": number % 3, "delivery_mode": 2})
    assert [one["payload"] for one in peek(scene, name)] == ["2", "5", "1", "4", "0", "3"]
    assert [one["payload"] for one in peek(scene, name, "offset=1&count=4")] == ["5", "1", "4", "0"]


def test_pages_go_on_behind_a_position(scene: Scene) -> None:
    """Whatever comes and goes between two pages, what stays is seen once; also with priorities and what came back."""
    name = scene.queue({"x-max-priority": 3})
    for number in range(30):
        scene.publish(name, str(number), properties={"priority": number % 3})
    before = numbers(scene, name)
    first = peek(scene, name, "after=0&count=7")
    assert [one["payload"] for one in first] == [str(number) for number in range(7)]
    assert numbers(scene, name) == before
    gone = {one["payload"] for one in scene.get(name, count=3).body}
    seen = [one["payload"] for one in first]
    with scene.channel() as channel:
        channel.basic_get(name)
        position = first[-1]["position"]
        while page := peek(scene, name, f"after={position}&count=7"):
            assert all(one["position"] > position for one in page)
            position = page[-1]["position"]
            seen += [one["payload"] for one in page]
    assert len(seen) == len(set(seen))
    assert len({str(number) for number in range(30)} - set(seen) - gone) <= 1, "but for the one that was held"


def test_large_messages_are_paged_by_position(scene: Scene) -> None:
    """An answer ends at 32 MiB, however many messages it was to have."""
    name = scene.queue()
    with scene.channel() as channel:
        for number in range(12):
            channel.basic_publish("", name, b"%03d" % number + bytes(5 * 1024 * 1024))
    seen, position = [], 0
    while page := peek(scene, name, f"after={position}&count=1000&encoding=base64"):
        assert len(page) < 12
        position = page[-1]["position"]
        seen += [base64.b64decode(one["payload"][:4]) for one in page]
    assert seen == [b"%03d" % number for number in range(12)]


def test_what_goes_with_after(scene: Scene) -> None:
    name, stream = scene.queue(), scene.queue({"x-queue-type": "stream"})
    for query in ("after=-1", "after=x", "after=0&offset=0", "after=0&state=unacked"):
        assert scene.api.get(f"/queues/%2F/{name}/peek?{query}").status == 400, query
    assert scene.api.get(f"/queues/%2F/{stream}/peek?after=0").status == 400


def test_answers_are_bounded(scene: Scene) -> None:
    name = scene.queue()
    for query in ("count=1001", "count=0", "offset=-1", "state=gone", "encoding=hex", "truncate=x"):
        assert scene.api.get(f"/queues/%2F/{name}/peek?{query}").status == 400, query
    assert scene.api.get("/queues/%2F/nosuch/peek").status == 404
    assert scene.api.get("/queues/nosuch/q/peek").status == 404


# ---- streams


def test_a_stream_is_read_by_offset_and_time(scene: Scene) -> None:
    name = scene.queue({"x-queue-type": "stream"})
    scene.fill(name, *map(str, range(10)))
    assert [one["payload"] for one in peek(scene, name, "offset=7")] == ["7", "8", "9"]
    assert [one["stream_offset"] for one in peek(scene, name, "offset=7&count=2")] == [7, 8]
    assert [one["payload"] for one in peek(scene, name)] == [str(number) for number in range(10)]
    assert [one["payload"] for one in peek(scene, name, "offset=last")] == ["9"]
    assert len(peek(scene, name, f"timestamp={int(time.time()) - 3600}")) == 10
    assert len(peek(scene, name, "offset=1h")) == 10
    assert peek(scene, name, f"timestamp={int(time.time()) + 3600}") == []
    assert peek(scene, name, "offset=10") == []
    assert scene.api.get(f"/queues/%2F/{name}/peek?offset=nonsense").status == 400
    assert scene.of_queue(name, lambda queue: queue.log.cursors) == 0


# ---- what is held


def test_who_holds_what(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, *map(str, range(5)))
    with scene.channel() as channel:
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(name, lambda *_: None, consumer_tag="worker")
        channel.connection.process_data_events(0.2)
        channel.basic_get(name)
        leased = scene.lease(name)
        rows = scene.api.get(f"/queues/%2F/{name}/unacked").body
        assert [(row["consumer_tag"], row["user"], row["routing_key"]) for row in rows] == [
            ("worker", "guest", name),
            ("worker", "guest", name),
            ("", "guest", name),
            ("", "guest", name),
        ]
        assert all(row["channel"].endswith("(1)") for row in rows[:3])
        assert [row["delivery_tag"] for row in rows[:3]] == [1, 2, 3]
        assert rows[3]["delivery_tag"] == leased[0]["delivery_tag"]
        assert rows[3]["lease_expires_at"] == leased[0]["lease_expires_at"]
        assert rows[3]["since"] is not None
        seen = peek(scene, name, "state=unacked")
        assert [one["payload"] for one in seen] == ["0", "1", "2", "3"]
        assert seen[0]["consumer_tag"] == "worker"
        assert [one["payload"] for one in peek(scene, name, "state=unacked&offset=1&count=2")] == ["1", "2"]
        assert "payload" not in rows[0]
    browser = scene.user("monitoring")
    assert browser.get(f"/queues/%2F/{name}/unacked").status == 200
    assert browser.get(f"/queues/%2F/{name}/peek?state=unacked").status == 401


# ---- pauses


def consumed(channel: Any, got: list[bytes]) -> list[bytes]:
    channel.connection.process_data_events(0.3)
    return got


def test_a_paused_queue_gives_consumers_nothing(scene: Scene) -> None:
    name = scene.queue()
    with scene.channel() as channel:
        got: list[bytes] = []
        channel.basic_consume(name, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
        assert scene.api.put(f"/queues/%2F/{name}/pause").status == 204
        scene.fill(name, "1", "2")
        assert consumed(channel, got) == []
        assert scene.api.get(f"/queues/%2F/{name}").body["state"] == "paused"
        assert scene.get(name).body[0]["payload"] == "1", "gets go on"
        channel.basic_consume(name, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
        assert consumed(channel, got) == [], "nor does one that comes later get anything"
        assert scene.api.put(f"/queues/%2F/{name}/resume").status == 204
        assert consumed(channel, got) == [b"2"]
        scene.fill(name, "3")
        assert consumed(channel, got) == [b"2", b"3"]
        assert scene.api.get(f"/queues/%2F/{name}").body["state"] == "running"
        assert scene.api.put(f"/queues/%2F/{name}/resume").status == 204, "once more does no harm"


def test_pausing_takes_configure(scene: Scene) -> None:
    name = scene.queue()
    assert scene.user("management", read=".*").put(f"/queues/%2F/{name}/pause").status == 401
    assert scene.user("management", configure=".*").put(f"/queues/%2F/{name}/pause").status == 204
    assert scene.api.put("/queues/%2F/nosuch/pause").status == 404
    stream = scene.queue({"x-queue-type": "stream"})
    assert scene.api.put(f"/queues/%2F/{stream}/pause").status == 400


def test_a_pause_survives_a_restart_but_not_its_queue(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        scene = Scene(broker)
        kept, gone = scene.queue(), scene.queue()
        for name in (kept, gone):
            assert scene.api.put(f"/queues/%2F/{name}/pause").status == 204
        assert scene.api.delete(f"/queues/%2F/{gone}").status == 204
        assert scene.api.put(f"/queues/%2F/{gone}", {"durable": True}).status == 201
        assert "leveret.pause" not in str(scene.api.get("/definitions").body)
    with running(tmp_path) as broker:
        scene = Scene(broker)
        states = [scene.api.get(f"/queues/%2F/{name}").body["state"] for name in (kept, gone)]
        assert states == ["paused", "running"]
        scene.fill(kept, "1")
        with scene.channel() as channel:
            got: list[bytes] = []
            channel.basic_consume(kept, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
            assert consumed(channel, got) == []
            scene.api.put(f"/queues/%2F/{kept}/resume")
            assert consumed(channel, got) == [b"1"]
    with running(tmp_path) as broker:
        assert Scene(broker).api.get(f"/queues/%2F/{kept}").body["state"] == "running"


# ---- whose queue it is


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/queues/%2F/{}/peek"),
        ("GET", "/queues/%2F/{}/peek?after=0"),
        ("GET", "/queues/%2F/{}/get"),
        ("PUT", "/queues/%2F/{}/pause"),
        ("PUT", "/queues/%2F/{}/resume"),
        ("DELETE", "/queues/%2F/{}/contents"),
        ("DELETE", "/queues/%2F/{}"),
        ("GET", "/tap?queue={}"),
    ],
)
def test_a_queue_of_one_connection_is_locked_to_all_others(scene: Scene, method: str, path: str) -> None:
    """Administrators too, as over AMQP."""
    with scene.channel() as channel:
        own = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", own, b"secret", pika.BasicProperties(headers={"x": "secret"}))
        reply = getattr(scene.api, method.lower())(path.format(own))
        assert reply.status == 400 and "secret" not in str(reply.body)
        assert reply.body["reason"].startswith("405 ")
        assert "cannot obtain exclusive access to locked queue" in reply.body["reason"]
        assert channel.basic_get(own)[2] == b"secret"


def test_who_holds_what_of_such_a_queue_is_shown_without_routing_keys(scene: Scene) -> None:
    with scene.channel() as channel:
        own = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", own, b"secret")
        channel.basic_get(own)
        (held,) = scene.api.get(f"/queues/%2F/{own}/unacked").body
        assert held["payload_bytes"] == 6 and "routing_key" not in held
