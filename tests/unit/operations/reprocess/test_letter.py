"""A dead letter as reprocessing sees it: its age, its replays, and what it goes back with."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.message import new_message
from leveret.operations.reprocess.letter import Letter
from leveret.queues.death import died
from tests.unit.queues.dataplane import message


def letter(headers: dict[str, Any] | None = None, times: tuple[int, ...] = (100,), **properties: Any) -> Letter:
    """A message with these headers that died once in each of these seconds, each time in another queue."""
    current = message(b"body", "key", "shop", headers=headers, **properties)
    for number, second in enumerate(times):
        changed, _ = died(current, f"q{number}", "rejected", None, second)
        current = new_message(b"shop", b"key", changed, b"body")
    current.stamp = 5_000_000
    return Letter(current)


def test_it_goes_back_without_a_word_of_death_and_counted() -> None:
    back = letter({"mine": 1, "x-retry-count": 3}, times=(100, 200), message_id="m", delivery_mode=2).replayed()
    assert back.headers() == {"mine": 1, "x-replay-count": 1, "x-first-death-time": 100}
    assert isinstance(back.headers()["x-first-death-time"], Timestamp)
    assert (back.message_id, back.persistent) == ("m", True)


def test_the_first_death_of_all_is_remembered_over_replays() -> None:
    again = letter(letter(times=(100,)).replayed().headers(), times=(900,))
    assert (again.replay_count, again.first_death_s, again.origin and again.origin.time_s) == (1, 100, 900)
    assert again.age_s(160_000) == 60
    headers = again.replayed().headers()
    assert (headers["x-replay-count"], headers["x-first-death-time"]) == (2, 100)


def test_what_never_died_is_as_old_as_its_stay_in_the_queue() -> None:
    fresh = letter({"mine": 1}, times=())
    assert (fresh.origin, fresh.first_death_s, fresh.age_s(5_002_500)) == (None, None, 2.5)
    assert fresh.replayed().headers() == {"mine": 1, "x-replay-count": 1}


@pytest.mark.parametrize("second", [0, -5, 1 << 62])
def test_a_death_in_no_second_that_ever_was_has_no_age(second: int) -> None:
    death = {"queue": "q", "reason": "expired", "exchange": "", "routing-keys": ["k"], "time": second, "count": 1}
    strange = letter({"x-death": [death]}, times=())
    assert (strange.origin and strange.origin.queue, strange.first_death_s) == ("q", None)
    assert strange.replayed().headers() == {"x-replay-count": 1}


@pytest.mark.parametrize("odd", [True, "3", -5, 1.5, None, 1 << 60, [1]])
def test_headers_that_clients_wrote_are_not_believed(odd: Any) -> None:
    strange = letter({"x-replay-count": odd, "x-first-death-time": odd})
    assert (strange.replay_count, strange.first_death_s) == (0, 100)
    assert strange.replayed().headers() == {"x-replay-count": 1, "x-first-death-time": 100}
