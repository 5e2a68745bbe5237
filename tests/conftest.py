"""What every suite shares: how hard hypothesis looks, and whether the data plane runs compiled."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Helpers whose asserts are to tell what they compared; before anybody imports them.
pytest.register_assert_rewrite("tests.contract.letters")

PURE = os.environ.get("LEVERET_PURE", "") not in ("", "0")

# No deadline: other work on the machine must not fail a test. `fuzz` is what `make fuzz` uses.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "fuzz", deadline=None, print_blob=True, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# Tests that were started in the background ignore Ctrl-C, and the programs that they end by it would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def leveret_logger() -> Iterator[logging.Logger]:
    """For tests of programs that set the log up: leaves the logger of the package as it was, for whoever comes next."""
    logger = logging.getLogger("leveret")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield logger
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


def pytest_report_header() -> str:
    return f"data plane: {'interpreted (LEVERET_PURE)' if PURE else 'compiled where built'}"


# Files of few tests that take long: whoever begins with them does not wait for them at the end.
LONG = ("tests/tidy/test_install.py", "tests/tidy/test_client_alone.py", "tests/crash/", "tests/client/adversity/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((place for place, start in enumerate(LONG) if item.nodeid.startswith(start)), 99))
    skip = pytest.mark.skip(reason="needs the compiled data plane")
    for item in items:
        if PURE and item.get_closest_marker("compiled"):
            item.add_marker(skip)
