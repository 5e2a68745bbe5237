"""What may be asked for, and that a job shows what was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from leveret.catalog.records import ReplayArchive, ReplayFilter
from leveret.errors import InvalidReplay
from leveret.operations.reprocess.spec import JobView, ReplaySpec, check_spec, new_record, view


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"to": "heaven"}, "to"),
        ({"to": "origin", "exchange": "x"}, "exchange"),
        ({"to": "origin-queue", "routing_key": "k"}, "exchange"),
        ({"to": "target", "exchange": "x" * 256}, "exchange"),
        ({"to": "target", "routing_key": "\u00fc" * 128}, "routing_key"),
        ({"limit": -1}, "limit"),
        ({"rate": -0.5}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"archive": ReplayArchive(-1, "", "q")}, "archive.after_s"),
        ({"archive": ReplayArchive(1, "", "q" * 256)}, "archive.routing_key"),
        ({"filter": ReplayFilter(reason="none")}, "filter.reason"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidReplay) as refusal:
        check_spec(ReplaySpec(**fields))
    assert refusal.value.field == field


def test_a_job_shows_what_was_asked_for_and_json_can_say_it() -> None:
    spec = ReplaySpec(
        "target", "x", "k", ReplayFilter(body_contains=b"\xff"), 5, 2.5, True, ReplayArchive(60, "", "archive")
    )
    check_spec(spec)
    shown = view(new_record("/", "dead", "7", spec, False, 123, 9), remaining=4, moved_per_s=0.5, waiting="low on disk")
    assert shown.spec == spec
    assert (shown.id, shown.vhost, shown.queue, shown.state, shown.created_ms) == ("7", "/", "dead", "running", 123)
    assert (shown.remaining, shown.moved_per_s, shown.waiting) == (4, 0.5, "low on disk")
    assert msgspec.json.decode(msgspec.json.encode(shown), type=JobView) == shown


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"limits": 5}, ReplaySpec)
