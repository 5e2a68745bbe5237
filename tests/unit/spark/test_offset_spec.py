"""What a user writes for a place in a stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

pytest.importorskip("pyspark")

from leveret.spark.errors import InvalidOption
from leveret.spark.offset_spec import EARLIEST, LATEST, STORED, OffsetSpec, Place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, LATEST),
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("stored", STORED),
        ("first", EARLIEST),
        ("next", LATEST),
        ("17", 17),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
        ('{"s": 5}', 5),
        ('{"s": "5"}', 5),
        ('{"s": -2}', EARLIEST),
        ('{"s": -1}', LATEST),
        ('{"s": "stored"}', STORED),
        ('{"s": "2026-01-02"}', datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_a_place(text: str | None, place: Place) -> None:
    assert OffsetSpec("startingOffsets", text, LATEST).of("s") == place


def test_a_timestamp() -> None:
    for text in ("1767225600000", "2026-01-01T00:00:00Z"):
        assert OffsetSpec("startingOffsets", None, LATEST, text).of("any") == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "timestamp", "why"),
    [
        ("soon", None, "startingOffsets has 'soon', which is not \"earliest\""),
        ("-5", None, "startingOffsets has '-5'"),
        ('{"s": -5}', None, "has the offset -5, which is below 0"),
        ('{"s": true}', None, "has True, which is neither an offset"),
        ('{"s": 1.5}', None, "has 1.5, which is neither"),
        ('{"s": ', None, "startingOffsets is '{\"s\": '"),
        (None, "yesterday", "startingOffsets is 'yesterday'"),
        (None, "9" * 30, "startingOffsets is '9"),
        ("earliest", "2026-01-01", "and a timestamp as well"),
    ],
)
def test_no_place(text: str | None, timestamp: str | None, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        OffsetSpec("startingOffsets", text, LATEST, timestamp)


def test_places_must_be_for_the_streams_that_are_read() -> None:
    places = OffsetSpec("startingOffsets", '{"a": 1, "b": 2}', LATEST)
    places.check_streams({"a": 0, "b": 0})
    with pytest.raises(InvalidOption, match="names b, which is not read; a is"):
        places.check_streams({"a": 0})
    with pytest.raises(InvalidOption, match="names a, b, and not c, which is read as well"):
        places.of("c")
    assert places.words == {1, 2}
