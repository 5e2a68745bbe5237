"""A broker of the test's own, as a process that can be killed; and silence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """pytest keeps what is logged, and with a traceback all that stands in its frames: links that are long gone."""
    caplog.set_level(logging.CRITICAL, logger="leveret.client")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Not started yet."""
    running = BrokerProcess(tmp_path)
    try:
        yield running
    finally:
        running.close()
