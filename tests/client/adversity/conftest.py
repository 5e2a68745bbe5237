"""A broker of the test's own, as a process that can be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.broker_process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Not started yet."""
    running = BrokerProcess(tmp_path)
    try:
        yield running
    finally:
        running.close()
