"""The log: one line an event through the standard library, silent where nobody listens, and nobody can forge a line."""

from __future__ import annotations

import logging

import pytest

from leveret.runtime.log import get_logger
from tests.unit.session.clients import running_scene


def test_an_event_is_one_line_with_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "leveret"):
        get_logger("leveret.test").info("login refused", user="ann", count=3)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("leveret.test", "INFO")
    assert record.getMessage() == "login refused user='ann' count=3"


def test_a_value_cannot_begin_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "leveret"):
        get_logger("leveret.test").info("login refused", user="ann\n2026-01-01 INFO login accepted user='ann' %s %d")
    assert "\n" not in caplog.records[0].getMessage()
    assert "%s %d" in caplog.records[0].getMessage()


def test_what_the_level_leaves_out_is_not_even_worded(caplog: pytest.LogCaptureFixture) -> None:
    class Expensive:
        def __repr__(self) -> str:
            raise AssertionError("was shown")

    with caplog.at_level(logging.WARNING, "leveret"):
        get_logger("leveret.test").debug("connection opened", detail=Expensive())
    assert caplog.records == []


def test_an_exception_brings_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ZeroDivisionError("a mistake")
    except ZeroDivisionError:
        get_logger("leveret.test").exception("handler failed", peer="1.2.3.4")
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_a_broker_in_a_test_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with running_scene() as scene:
        client = scene.connect()
        client.send(1, "queue.declare", queue="missing", passive=True)
        client.refusal()
        client.log_out()
    assert capfd.readouterr() == ("", "")


def test_a_refused_login_is_a_warning_with_who_and_where(caplog: pytest.LogCaptureFixture) -> None:
    with running_scene() as scene:
        client = scene.stranger()
        client.start()
        client.start_ok("mallory", "guess")
        client.refusal()
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    text = record.getMessage()
    assert text.startswith("login refused user='mallory' peer='127.0.0.1:")
    assert "guess" not in text
