"""What makes each message arrive once, shown by taking it away: then the comparison with the ledger must be red.

Without such controls a comparison that never finds anything would look the same as a pipeline without a fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from leveret.testing import Broker
from tests.spark.exactly_once.places import OffsetSpec
from tests.spark.exactly_once.scene import Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    with Broker() as broker:
        yield Scene(spark, broker.url, tmp_path)


def test_batches_that_are_run_again_change_nothing(scene: Scene) -> None:
    """The same as below with everything in its place: green."""
    scene.publish(range(300))
    assert not scene.ledger.compare(scene.fill_lake())
    assert not scene.ledger.compare(scene.send_back())
    for query in ("lake", "back"):
        scene.forget_last_batch(query)
    scene.publish(range(300, 400))
    assert not scene.ledger.compare(scene.fill_lake())
    assert not scene.ledger.compare(scene.send_back())


def test_without_its_checkpoint_the_lake_has_rows_twice(scene: Scene) -> None:
    scene.publish(range(300))
    assert not scene.ledger.compare(scene.fill_lake())
    shutil.rmtree(scene.places.checkpoint("lake"))
    # The lake knows the numbers of its batches and would pass over six of the same size: these are smaller.
    scene.places = OffsetSpec(scene.places.url, scene.places.root, rows_per_batch=20)
    difference = scene.ledger.compare(scene.fill_lake())
    assert difference.repeated, str(difference)


def test_without_its_checkpoint_the_target_has_messages_twice(scene: Scene) -> None:
    """A new query has a new name, and the broker cannot know its messages."""
    scene.publish(range(100))
    scene.fill_lake()
    assert not scene.ledger.compare(scene.send_back())
    shutil.rmtree(scene.places.checkpoint("back"))
    difference = scene.ledger.compare(scene.send_back())
    assert len(difference.repeated) == 100, str(difference)


def test_with_ids_of_another_run_the_target_has_messages_twice(scene: Scene) -> None:
    scene.publish(range(100))
    scene.fill_lake()
    assert not scene.ledger.compare(scene.send_back(writeId="first-run"))
    scene.forget_last_batch("back")
    difference = scene.ledger.compare(scene.send_back(writeId="second-run"))
    assert difference.repeated and not difference.missing, str(difference)


def test_a_given_id_without_its_checkpoint_is_refused(scene: Scene) -> None:
    """The broker knows all ids of the batches that come again, and would take none of their rows."""
    scene.publish(range(100))
    scene.fill_lake()
    before = scene.send_back(writeId="orders")
    assert not scene.ledger.compare(before)
    shutil.rmtree(scene.places.checkpoint("back"))
    with pytest.raises(PySparkException, match="WriteIdInUse"):
        scene.send_back(writeId="orders")
