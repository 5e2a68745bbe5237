"""A batch that Spark runs again with other tasks: after a restart with more or fewer cores, a file source cuts the same
files into other tasks, and what row 3 of task 1 is, is then another row.

The sink's own ids are for tasks that stay the same. There are two ways out, both shown here: the number of tasks does
not depend on the cores, which open_session sees to, or rows have ids that come from the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from leveret.testing import Broker
from tests.spark.exactly_once.scene import Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark takes from the cores of all executors that there are at the moment.
CORES: Final = "spark.sql.leafNodeDefaultParallelism"
PINNED: Final = "spark.sql.files.minPartitionNum"
Change = Callable[[str, str], None]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    """With six files in the lake, all of which are sent back in one batch."""
    with Broker() as broker:
        made = Scene(spark, broker.url, tmp_path)
        made.publish(range(150))
        assert not made.ledger.compare(made.fill_lake())
        yield made


def test_own_ids_lose_nothing_with_another_number_of_tasks(scene: Scene, settings: Change) -> None:
    """Rows may be there twice, which is known and documented: this test tells if Spark or the sink changes it."""
    settings(PINNED, "2")
    assert not scene.ledger.compare(scene.send_back())
    scene.forget_last_batch("back")
    settings(PINNED, "8")
    found = scene.ledger.compare(scene.send_back())
    assert found.repeated and not found.missing


def test_our_sessions_keep_own_ids_true_on_any_number_of_cores(scene: Scene, settings: Change) -> None:
    settings(CORES, "2")
    assert not scene.ledger.compare(scene.send_back())
    scene.forget_last_batch("back")
    settings(CORES, "8")
    assert not scene.ledger.compare(scene.send_back())


def test_ids_from_the_data_outlive_any_plan(scene: Scene, settings: Change) -> None:
    """A file is a producer and its rows are numbered: a Parquet file of one row group is always read by one task."""
    settings(CORES, "2")
    assert not scene.ledger.compare(scene.send_back(by_file=True))
    scene.forget_last_batch("back")
    settings(CORES, "8")
    assert not scene.ledger.compare(scene.send_back(by_file=True))
