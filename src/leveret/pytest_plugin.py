"""The pytest plugin: a broker for every test that asks for one.

Imports the broker only when a test uses it, so that having Leveret installed costs other tests nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leveret.testing import Broker


@pytest.fixture
def leveret_broker() -> Iterator[Broker]:
    """A real Leveret broker on a free port, for this test alone: `leveret_broker.url` is its address."""
    from leveret.testing import Broker

    with Broker() as broker:
        yield broker
