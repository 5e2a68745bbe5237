"""One Spark session for all tests here, and a broker and a lake for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.session import open_session
from leveret.testing import Broker


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", "local[2]")
    yield session
    session.stop()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))
