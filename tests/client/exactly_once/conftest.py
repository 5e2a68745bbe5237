"""Every test that asks for `database` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.testing import Broker
from tests.client.exactly_once.postgres_server import PostgresServer, binaries, running_postgres
from tests.client.exactly_once.scene import EFFECTS, Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    if binaries() is None:
        pytest.skip("there is no PostgreSQL here; as root on Debian, `.ci/run system` installs it")
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty one, with the table of effects."""
    if request.param == "sqlite":
        place = str(tmp_path / "shop.db")
    else:
        place = request.getfixturevalue("postgres").new_schema()
    database = Database(request.param, place)
    database.execute(EFFECTS[database.kind])
    return database


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
