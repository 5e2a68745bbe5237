"""x-stream-offset: where a consumer of a stream starts."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.field_types import Timestamp
from leveret.errors import SoftError
from leveret.queues.stream_offset import MOMENT_CHARS_MAX, Start, read_start

NOW_MS = 1_800_000_000_000
WHAT = "queue 's' in vhost '/'"


@pytest.mark.parametrize(
    ("value", "start"),
    [
        (None, Start("next")),
        ("first", Start("first")),
        (b"last", Start("last")),
        (7, Start("offset", 7)),
        (-1, Start("offset", 0)),
        (Timestamp(1_700_000_000), Start("since", 1_700_000_000_000)),
        ("1h", Start("since", NOW_MS - 3_600_000)),
        ("2023-11-14T22:13:20Z", Start("since", 1_700_000_000_000)),
        ("2023-11-14T22:13:20", Start("since", 1_700_000_000_000)),
        ("2023-11-14 23:13:20+01:00", Start("since", 1_700_000_000_000)),
        ("2023-11-14T22:13:20.125Z", Start("since", 1_700_000_000_125)),
        (b"20231114T221320Z", Start("since", 1_700_000_000_000)),
        ("2023-11-14", Start("since", 1_699_920_000_000)),
        ("1969-12-31T23:59:59Z", Start("since", 0)),
        ("0001-01-01T00:00:00+14:00", Start("since", 0)),
    ],
)
def test_places(value: Any, start: Start) -> None:
    assert read_start(value, NOW_MS, WHAT) == start


@pytest.mark.parametrize(
    "value",
    [
        *("", "sometime", "0h", "2023-13-01", "2023-11-14T25:00:00Z", "2023-11-14T22:13:20+99:00", "22:13:20"),
        "2023-11-14T22:13:20." + "1" * MOMENT_CHARS_MAX,
        *(True, 1.5, [], {}),
    ],
    ids=repr,
)
def test_what_is_no_place_is_refused(value: Any) -> None:
    with pytest.raises(SoftError) as caught:
        read_start(value, NOW_MS, WHAT)
    assert caught.value.code == 406
    assert f"invalid arg 'x-stream-offset' for {WHAT}: {{invalid_stream_offset_arg," in caught.value.reply_text
