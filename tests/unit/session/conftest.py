"""The broker that a session test talks to: one for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.session.clients import Scene, running_scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    with running_scene() as made:
        yield made


@pytest.fixture
def quick_scene() -> Iterator[Scene]:
    """A broker that gives strangers 2 s: enough for a handshake on a busy machine."""
    with running_scene({"limits.handshake_deadline_s": 2}) as made:
        yield made
