"""Streams over HTTP: their clients, how far consumers have come, where a moment is, and super streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import OffsetType
from tests.conformance.raw_stream_client import RawStreamClient
from tests.http_client import Api, name

FIRST = commands.OffsetSpec(OffsetType.FIRST)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker({"data_dir": str(tmp_path_factory.mktemp("streams"))}) as running:
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def stream(api: Api) -> Iterator[str]:
    assert api.put("/queues/%2F/river", {"durable": True, "arguments": {"x-queue-type": "stream"}}).status == 201
    yield "river"
    api.delete("/queues/%2F/river")


@pytest.fixture
def client(broker: Broker, stream: str) -> Iterator[RawStreamClient]:
    """One that publishes five messages and reads them."""
    with RawStreamClient(broker.host, broker.stream_port) as raw:
        raw.log_in()
        raw.do(commands.DeclarePublisher, 1, "writer", stream)
        raw.publish(1, *[(number, b"message") for number in range(1, 6)])
        raw.receive(commands.PublishConfirm)
        raw.do(commands.Subscribe, 4, stream, FIRST, 10, {"name": "reader"})
        raw.receive_messages()
        yield raw


def only(found: Any) -> Any:
    (one,) = found
    return one


def test_a_stream_connection_is_a_connection(api: Api, client: RawStreamClient) -> None:
    found = only(api.get("/stream/connections").body)
    assert (found["protocol"], found["channels"], found["user"]) == ("stream", 0, "guest")
    path = f"/stream/connections/%2F/{name(found['name'])}"
    assert api.get(path).body["name"] == found["name"]
    assert api.get("/stream/connections/%2F").body[0]["name"] == found["name"]
    assert only(each for each in api.get("/connections").body if each["protocol"] == "stream")["name"] == found["name"]
    assert api.get(f"/connections/{name(found['name'])}/channels").body == []
    assert api.get("/stream/connections/%2F/nosuch").status == 404


def test_publishers(api: Api, client: RawStreamClient) -> None:
    found = only(api.get("/stream/publishers").body)
    assert (found["publisher_id"], found["reference"], found["queue"]) == (1, "writer", {"name": "river", "vhost": "/"})
    assert (found["published"], found["confirmed"], found["errored"]) == (5, 5, 0)
    connection = found["connection_details"]["name"]
    for path in ("%2F", "%2F/river"):
        assert api.get(f"/stream/publishers/{path}").body == [found]
    assert api.get(f"/stream/connections/%2F/{name(connection)}/publishers").body == [found]
    assert api.get("/stream/publishers/%2F/other").body == []


def test_consumers(api: Api, client: RawStreamClient) -> None:
    found = only(api.get("/stream/consumers").body)
    assert (found["subscription_id"], found["consumed"], found["credits"]) == (4, 5, 9)
    assert (found["offset"], found["offset_lag"], found["active"]) == (5, 0, True)
    assert found["properties"] == {"name": "reader"}
    assert api.get("/stream/consumers/%2F").body == [found]
    connection = found["connection_details"]["name"]
    assert api.get(f"/stream/connections/%2F/{name(connection)}/consumers").body == [found]
    among_all = only(api.get("/consumers").body)
    assert (among_all["consumer_tag"], among_all["queue"]["name"]) == ("stream.subid-4", "river")
    queue = api.get("/queues/%2F/river").body
    assert queue["consumer_details"] == [among_all]
    assert (queue["consumers"], queue["readers"]) == (1, {queue["node"]: 1})
    assert queue["message_stats"]["publish"] == queue["message_stats"]["deliver"] == 5


def test_closing_a_stream_connection(api: Api, client: RawStreamClient) -> None:
    found = only(api.get("/stream/connections").body)
    assert api.delete(f"/stream/connections/%2F/{name(found['name'])}").status == 204
    assert client.is_closed()
    assert api.get("/stream/connections").body == []


# ---- tracking


def test_stored_offsets_are_read_set_and_forgotten(api: Api, client: RawStreamClient) -> None:
    client.send(commands.StoreOffset("reader", "river", 3))
    client.do(commands.QueryOffset, "reader", "river")
    told = {"offsets": {"reader": 3}, "lags": {"reader": 1}}
    assert api.get("/stream/%2F/river/tracking").body == {**told, "writers": {"writer": 5}}
    assert api.get("/stream/%2F/river/tracking?type=offset").body == told
    assert api.get("/stream/%2F/river/tracking?type=writer").body == {"writers": {"writer": 5}}
    one = "/stream/%2F/river/tracking/reader"
    assert api.get(one).body == {"consumer": "reader", "offset": 3}
    assert api.put(one, {"offset": 1}).status == 204
    assert api.get(one).body["offset"] == 1
    assert api.delete(one).status == 204
    assert api.get(one).status == api.delete(one).status == 404
    assert api.get("/stream/%2F/river/tracking?type=offset").body == {"offsets": {}, "lags": {}}


@pytest.mark.parametrize("body", [{}, [], {"offset": "1"}, {"offset": -1}, {"offset": True}, {"offset": 1 << 63}])
def test_offsets_that_are_none(api: Api, stream: str, body: Any) -> None:
    reply = api.put("/stream/%2F/river/tracking/reader", body)
    assert reply.status == 400
    assert reply.body["error"] == "bad_request"


def test_what_is_no_stream_has_no_offsets(api: Api) -> None:
    api.put("/queues/%2F/pond", {})
    for path in ("tracking", "tracking/x", "offset"):
        assert api.get(f"/stream/%2F/pond/{path}").status == 400
        assert api.get(f"/stream/%2F/nosuch/{path}").status == 404
    api.delete("/queues/%2F/pond")


def test_offsets_need_the_right_to_read(broker: Broker, api: Api, stream: str) -> None:
    api.put("/users/blind", {"password": "blind", "tags": "management"})
    api.put("/permissions/%2F/blind", {"configure": ".*", "write": ".*", "read": "^$"})
    blind = Api(broker, "blind", "blind")
    assert blind.get("/queues/%2F/river").status == 200
    for path in ("tracking", "tracking/x", "offset"):
        assert blind.get(f"/stream/%2F/river/{path}").status == 401
    assert blind.put("/stream/%2F/river/tracking/x", {"offset": 1}).status == 401
    assert blind.delete("/stream/%2F/river/tracking/x").status == 401
    api.delete("/users/blind")


def test_a_forgotten_offset_stays_forgotten(tmp_path: Path) -> None:
    settings: dict[str, object] = {"data_dir": str(tmp_path)}
    with Broker(settings) as broker:
        api = Api(broker)
        api.put("/queues/%2F/lake", {"durable": True, "arguments": {"x-queue-type": "stream"}})
        for consumer in ("kept", "gone"):
            assert api.put(f"/stream/%2F/lake/tracking/{consumer}", {"offset": 7}).status == 204
        assert api.delete("/stream/%2F/lake/tracking/gone").status == 204
    with Broker(settings) as broker:
        assert Api(broker).get("/stream/%2F/lake/tracking?type=offset").body == {
            "offsets": {"kept": 7},
            "lags": {"kept": 0},
        }


# ---- where something is


def test_where_a_consumer_would_begin(api: Api, client: RawStreamClient) -> None:
    path = "/stream/%2F/river/offset"
    ages = {"first": 0, "last": 4, "next": 5, "3": 3, "1h": 0}
    assert {at: api.get(f"{path}?at={at}").body["offset"] for at in ages} == ages
    assert api.get(path).body == {"offset": 0}
    assert api.get(f"{path}?timestamp={int(time.time()) - 3600}").body == {"offset": 0}
    assert api.get(f"{path}?timestamp={int(time.time()) + 3600}").body == {"offset": 5}
    assert api.get(f"{path}?at=never").status == 400
    assert api.get(f"{path}?timestamp=yesterday").status == 400


# ---- super streams


def test_super_streams(api: Api) -> None:
    path = "/stream/super-streams/%2F/rivers"
    assert api.put(path, {"partitions": 3}).status == 201
    found = api.get(path).body
    assert found["partitions"] == ["rivers-0", "rivers-1", "rivers-2"]
    assert found["binding_keys"] == ["0", "1", "2"]
    assert api.get("/stream/super-streams").body == api.get("/stream/super-streams/%2F").body == [found]
    assert api.put(path, {"partitions": 3}).status == 400
    assert api.delete(path).status == 204
    assert api.get(path).status == api.delete(path).status == 404
    keys = {"binding-keys": "north, south", "arguments": {"x-max-age": "1D"}}
    assert api.put(path, keys).status == 201
    assert api.get(path).body["partitions"] == ["rivers-north", "rivers-south"]
    assert api.get("/queues/%2F/rivers-north").body["arguments"]["x-max-age"] == "1D"
    assert api.delete(path).status == 204


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"partitions": "many"},
        {"partitions": 0},
        {"partitions": 10**9},
        {"partitions": True},
        {"binding-keys": [1]},
        {"partitions": 1, "arguments": []},
        # The name of an argument has at most 255 octets.
        {"partitions": 1, "arguments": {"é" * 200: 1}},
    ],
)
def test_super_streams_that_cannot_be(api: Api, body: Any) -> None:
    assert api.put("/stream/super-streams/%2F/impossible", body).status == 400
    assert api.get("/stream/super-streams").body == []
