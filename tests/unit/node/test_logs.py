"""How the node's log looks: one line an event on standard error, from the chosen level on."""

from __future__ import annotations

import json
import logging
import re

import pytest

from leveret.node.logs import configure_logs, set_log_level
from leveret.runtime.log import get_logger
from leveret.runtime.secret import Secret

pytestmark = pytest.mark.usefixtures("leveret_logger")


def test_an_event_is_a_line_with_time_level_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info")
    get_logger("leveret.test.one").info("login refused", user="ann")
    get_logger("leveret.test.one").debug("not shown")
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    login refused user='ann'\n", output.err), (
        output.err
    )


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_the_least_that_is_shown(level: str, shown: int, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level)
    log = get_logger(f"leveret.test.{level}")
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("event")
    assert capsys.readouterr().err.count("event") == shown


def test_configuring_twice_does_not_say_everything_twice(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info")
    configure_logs("info")
    get_logger("leveret.test.twice").info("event")
    assert capsys.readouterr().err.count("event") == 1


def test_json_has_an_event_a_line_with_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    log = get_logger("leveret.test.json")
    log.info("login refused", user='a"\nb', tries=3, level="odd", secret=Secret("hush"), peer=("::1", 5), raw=b"\xff")
    try:
        raise ZeroDivisionError("no")
    except ZeroDivisionError:
        log.exception("failed")
    logging.getLogger("leveret.test.plain").warning("from %s", "elsewhere")
    first, second, third = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "info",
        "logger": "leveret.test.json",
        "event": "login refused",
        "user": 'a"\nb',
        "tries": 3,
        "level_": "odd",
        "secret": "******",
        "peer": ["::1", 5],
        "raw": "/w==",
    }
    assert (second["level"], second["event"]) == ("error", "failed")
    assert "ZeroDivisionError: no" in second["exception"]
    assert (third["level"], third["event"]) == ("warning", "from elsewhere")


def test_the_level_can_change(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info")
    log = get_logger("leveret.test.changing")
    log.debug("not yet")
    set_log_level("debug")
    log.debug("now")
    assert "now" in (output := capsys.readouterr().err)
    assert "not yet" not in output
