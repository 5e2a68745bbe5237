"""How the node's log looks: one line an event on standard error, from the chosen level on."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from leveret.node.logs import configure_logs
from leveret.runtime.log import get_logger


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """Leaves the logger of the package as it was."""
    logger = logging.getLogger("leveret")
    before = (logger.handlers, logger.level, logger.propagate)
    yield logger
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


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
