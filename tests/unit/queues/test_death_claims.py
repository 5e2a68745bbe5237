"""Deaths that a client wrote: shown and counted on, but never believed about where a message came from."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.field_types import Int64, Timestamp
from leveret.core.codec.message import new_message, shown
from leveret.core.codec.properties import Properties, encode_properties, parse_properties
from leveret.core.codec.tables import ORIGIN_HEADER
from leveret.queues.death import BY_CLIENT, claimed, died, origin, stripped

FORGED = {
    "count": Int64(1),
    "reason": "rejected",
    "queue": "orders",
    "time": Timestamp(1),
    "exchange": "secret",
    "routing-keys": ["key"],
}


def properties_of(**headers: Any) -> Properties:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse_properties(encode_properties(headers=named))


def dead(properties: Properties, queue: str, reason: str = "rejected", now_s: int = 100) -> Properties:
    message = new_message(b"shop", b"new", properties, b"")
    return died(message, queue, reason, None, now_s)[0]


@pytest.mark.parametrize(
    ("headers", "noted"),
    [
        ({"x-death": []}, True),
        ({"x-death": 1, "a": 2}, True),
        ({ORIGIN_HEADER: FORGED}, True),
        ({"x-deatH": []}, False),
        ({"x-delay": 1}, False),
        ({"x-dexxx": 1}, False),
        ({"x-leveret-abcdef": 1}, False),
        ({"inner": {"x-death": []}}, False),
    ],
)
def test_what_claims_deaths_is_noticed_when_the_headers_are_scanned(headers: dict[str, Any], noted: bool) -> None:
    assert parse_properties(encode_properties(headers=headers)).has_death == noted


def test_a_delay_is_still_noticed() -> None:
    assert properties_of(x_delay=5).has_delay
    assert not properties_of(x_death=[]).has_delay


def test_what_the_broker_wrote_is_believed() -> None:
    found = origin(dead(properties_of(a=1), "orders"))
    assert found is not None
    assert (found.exchange, found.routing_keys, found.queue) == (b"shop", (b"new",), "orders")


def test_what_a_client_wrote_is_not() -> None:
    assert origin(properties_of(x_death=[FORGED])) is not None, "as it would be without the broker's note"
    assert origin(claimed(properties_of(x_death=[FORGED]))) is None


def test_a_client_cannot_write_the_note_itself() -> None:
    forged = properties_of(**{"x_death": [FORGED], ORIGIN_HEADER: FORGED})
    assert origin(claimed(forged)) is None
    assert claimed(forged).headers()[ORIGIN_HEADER] == BY_CLIENT


@pytest.mark.parametrize("queue", ["orders", "others"])
def test_after_a_real_death_that_one_is_the_origin(queue: str) -> None:
    """Also where it is counted as another of those that the client wrote, and takes its exchange from there."""
    letter = dead(claimed(properties_of(x_death=[FORGED])), queue)
    found = origin(letter)
    assert found is not None
    assert (found.exchange, found.routing_keys, found.queue, found.time_s) == (b"shop", (b"new",), queue, 100)
    again = origin(dead(letter, "later", now_s=200))
    assert again is not None
    assert (again.queue, again.exchange) == (queue, b"shop"), "the first that the broker saw"


def test_clients_see_and_count_on_what_they_wrote_and_never_the_note() -> None:
    letter = dead(claimed(properties_of(x_death=[FORGED])), "orders")
    seen = shown(new_message(b"", b"q", letter, b"")).properties
    assert not seen.has_bcc
    assert ORIGIN_HEADER not in seen.headers()
    deaths = seen.headers()["x-death"]
    assert [(death["queue"], death["count"], death["exchange"]) for death in deaths] == [("orders", 2, "secret")]


def test_the_note_goes_with_all_other_words_of_death() -> None:
    assert stripped(dead(claimed(properties_of(x_death=[FORGED])), "orders")).headers() == {}
