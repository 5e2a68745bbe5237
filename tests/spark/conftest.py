"""What the tests of Spark share: one session for all of them, a broker and a lake for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leveret.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.pipeline.lake import Lake


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")
    from leveret.spark.pipeline.session import open_session

    session = open_session("tests", "local[2]", {"spark.ui.enabled": "false"})
    yield session
    session.stop()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker().start()
    yield broker
    broker.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")
    from leveret.spark.pipeline.lake import Lake

    return Lake(str(tmp_path / "lake"))
