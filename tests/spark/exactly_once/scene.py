"""The pipeline under test in the test's own session: run to its end as often as a test likes, with a ledger beside it.

Kills nothing; what a kill leaves behind is made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.spark.exactly_once.ledger import Ledger
from tests.spark.exactly_once.places import TARGET, OffsetSpec
from tests.spark.exactly_once.publisher import declare_streams, publish_numbers, read_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Scene"]

ALL: Final = {"availableNow": True}


class Scene:
    """A broker with its streams, a lake, and the two queries run one after the other as often as a test likes."""

    def __init__(self, spark: SparkSession, url: str, root: Path) -> None:
        self.spark = spark
        self.places = OffsetSpec(url, str(root), rows_per_batch=50)
        self.ledger = Ledger()
        declare_streams(url)

    def publish(self, numbers: range) -> None:
        publish_numbers(self.places.url, self.ledger, numbers)

    def fill_lake(self) -> list[int]:
        from tests.spark.exactly_once.job import ids_in_lake, start_lake

        start_lake(self.spark, self.places, ALL).awaitTermination()
        return ids_in_lake(self.spark, self.places)

    def send_back(self, *, by_file: bool = False, **options: str) -> list[int]:
        from tests.spark.exactly_once.job import start_back

        start_back(self.spark, self.places, ALL, by_file=by_file, **options).awaitTermination()
        return read_stream(self.places.url, TARGET)

    def forget_last_batch(self, query: str) -> None:
        self.places.forget_last_batch(query)
