"""What people see of values."""

from typing import Any

import pytest

from leveret.cli.output import cell, duration, moment, safe, size, value_at


@pytest.mark.parametrize(
    ("value", "column", "shown"),
    [
        (None, "x", ""),
        (True, "durable", "yes"),
        (False, "created_at", "no"),
        (3, "messages", "3"),
        (1.25, "rate", "1.2"),
        (["a", "b"], "tags", "a, b"),
        ([1, {"a": 2}], "x", '[1, {"a": 2}]'),
        ({}, "arguments", ""),
        ({"x-max-length": 5, "x-overflow": "reject-publish"}, "arguments", "x-max-length=5, x-overflow=reject-publish"),
        ({"a": {"b": 1}}, "arguments", '{"a": {"b": 1}}'),
        (1794829172704, "created_at", "2026-11-16 11:39:32Z"),
        (1794829172704, "details.connected_at", "2026-11-16 11:39:32Z"),
        (1794829172, "first_death_s", "2026-11-16 11:39:32Z"),
        (3_725_000, "uptime", "1 h 2 min 5 s"),
        (64 * 1024 * 1024, "mem_used", "64 MiB"),
    ],
)
def test_cells(value: Any, column: str, shown: str) -> None:
    assert cell(value, column) == shown


def test_a_moment_beyond_all_calendars_is_a_number() -> None:
    assert moment(1e30) == "1e+30"


def test_durations_and_sizes() -> None:
    assert [duration(seconds) for seconds in (0, 59.9, 86_400)] == ["0 s", "59 s", "1 d"]
    assert [size(octets) for octets in (0, 1023, 1536, 20 * 1024, 3 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "20 KiB", "3.0 TiB",
    ]  # fmt: skip


def test_what_would_command_a_terminal() -> None:
    assert safe("a\x1b[2Jb\r\n\x9b\u202e") == "a\\x1b[2Jb\\x0d\\x0a\\x9b\\x202e"
    assert safe("ä 水 🐇") == "ä 水 🐇"


def test_columns_within_columns() -> None:
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert value_at({"a.b": 2, "a": {"b": 1}}, "a.b") == 2
    assert value_at({"a": 1}, "a.b") is None
