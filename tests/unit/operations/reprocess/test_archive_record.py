"""An archived letter's line: everything of the message, under an id that stays."""

import base64
import json
from typing import Any

import msgspec

from leveret.catalog.records import QueueRecord
from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.codec.tables import ORIGIN_HEADER
from leveret.operations.reprocess.archive_record import PIECE_BYTES, Filed, Place, line_pieces
from tests.unit.catalog.naming import queue

KEPT = QueueRecord("/", "dead", "classic", True, False, 0, {}, 7, 5)
PLACE = Place("cluster", "leveret@here", KEPT, "life", "12")
DEATH = {
    "count": 2,
    "reason": "rejected",
    "queue": "orders",
    "time": Timestamp(1_700_000_000),
    "exchange": "shop",
    "routing-keys": ["new"],
    "original-expiration": "500",
}


def line(body: bytes = b"", place: Place = PLACE, position: int = 3, **properties: Any) -> dict[str, Any]:
    filed = Filed(position, b"dlx", b"key", encode_properties(**properties), body, 1_700_000_001_000)
    octets = b"".join(line_pieces(filed, place, 1_800_000_000.5))
    assert octets.endswith(b"\n") and octets.count(b"\n") == 1
    found: dict[str, Any] = json.loads(octets)
    return found


def test_everything_is_there() -> None:
    headers = {"x-death": [DEATH], "tier": "premium", "raw": b"\xff\x00", "nested": {"n": [1, None]}}
    found = line(b"\x00body", content_type="text/plain", message_id="m1", headers=headers, delivery_mode=2)
    wire = found.pop("wire_properties")
    assert parse_properties(base64.b64decode(wire)).headers() == headers
    assert base64.b64decode(found.pop("body")) == b"\x00body"
    assert found.pop("headers").keys() == headers.keys()
    assert found == {
        "version": 1,
        "id": "cluster/7-5/3",
        "archived_at": "2027-01-15T08:00:00.500Z",
        "node": "leveret@here",
        "job": "12",
        "vhost": "/",
        "queue": "dead",
        "position": 3,
        "arrived_at": "2023-11-14T22:13:21.000Z",
        "first_death_at": "2023-11-14T22:13:20.000Z",
        "source_queue": "orders",
        "source_exchange": "shop",
        "source_routing_keys": ["new"],
        "reason": "rejected",
        "death_count": 2,
        "replay_count": 0,
        "deaths": [
            {
                "queue": "orders",
                "reason": "rejected",
                "count": 2,
                "exchange": "shop",
                "routing_keys": ["new"],
                "time": "2023-11-14T22:13:20.000Z",
                "original_expiration": "500",
            }
        ],
        "exchange": "dlx",
        "routing_key": "key",
        "properties": {"content_type": "text/plain", "message_id": "m1", "delivery_mode": 2},
        "body_bytes": 5,
    }


def test_a_message_that_never_died_has_no_source() -> None:
    found = line(b"x")
    assert (found["source_queue"], found["reason"], found["deaths"], found["first_death_at"]) == (None, None, [], None)


def test_long_bodies_are_whole() -> None:
    body = bytes(range(256)) * (PIECE_BYTES // 256 * 2 + 1)
    found = line(body)
    assert base64.b64decode(found["body"], validate=True) == body
    assert found["body_bytes"] == len(body)


def test_headers_that_clients_made_up_are_taken_as_they_are() -> None:
    for odd in ("text", [1, "x"], [{"time": Timestamp(1 << 60), "count": "many", "routing-keys": 5}]):
        found = line(b"", headers={"x-death": odd, "x-replay-count": "often"})
        assert found["source_queue"] is None
        assert found["replay_count"] == 0
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert line(headers={"name": name})["headers"] == {"name": "\ufffd\ufffd"}


def test_the_brokers_own_header_stays_inside() -> None:
    found = line(headers={ORIGIN_HEADER: "by client", "x": 1})
    assert found["headers"] == {"x": 1}
    assert ORIGIN_HEADER.encode() not in base64.b64decode(found["wire_properties"])


def test_ids_tell_messages_apart_and_stay() -> None:
    assert line(position=3)["id"] == line(b"again", position=3)["id"] != line(position=4)["id"]
    other = PLACE._replace(queue=msgspec.structs.replace(KEPT, id=8))
    assert line(place=other)["id"] != line()["id"]
    # Positions of a queue that does not survive begin anew with the next life of the broker.
    fleeting = PLACE._replace(queue=queue("dead"))
    assert line(place=fleeting)["id"] != line(place=fleeting._replace(life="next"))["id"]
