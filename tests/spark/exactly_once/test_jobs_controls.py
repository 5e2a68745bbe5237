"""What makes the tables of the jobs whole, shown by taking it away: then the judgement must be red. One story, because
the jobs take a while: as it ought to be, tried again, and with something gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leveret.client import blocking
from leveret.testing import Broker
from tests.spark.exactly_once.findings import Findings
from tests.spark.exactly_once.jobs_books import JobsBooks
from tests.spark.exactly_once.places import JOBS, OffsetSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The short form of the kills is in every run; this one, which shows that they could be red, with what takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


def test_the_judgement_of_the_jobs_is_green_and_turns_red(spark: SparkSession, tmp_path: Path) -> None:
    from tests.spark.exactly_once.jobs import finish_jobs, judge_tables, run_jobs

    books = JobsBooks()
    with Broker() as broker:
        places = OffsetSpec(broker.url, str(tmp_path), pipeline=JOBS)
        books.declare(places.url)
        with blocking.connect(places.url) as connection:
            books.open(connection)(range(400))
        books.wait_until_settled(places.url)

        def red_tables(findings: Findings) -> set[str]:
            different = {name for name, one in books.compare(places.url, findings).items() if one}
            return different | {line.partition(":")[0] for line in findings.wrong}

        assert not red_tables(finish_jobs(spark, places))
        # Batches that are run again change nothing.
        for query in places.queries:
            places.forget_last_batch(query)
        run_jobs(spark, places)
        assert not red_tables(judge_tables(spark, places))

        # An hour of gold that a kill might leave missing, if no batch made it anew.
        (hour,) = Path(places.root).glob("gold/deadletters_by_hour/event_date=2026-03-01/event_hour=10")
        shutil.rmtree(hour)
        by_hour = {"deadletters_by_hour and silver", "deadletters_by_hour and its reference"}
        assert red_tables(judge_tables(spark, places)) == by_hour

        # A new query counts everything once more; gold says so, too, and agrees with silver.
        shutil.rmtree(places.checkpoint("analytics"))
        run_jobs(spark, places)
        traffic = {"traffic_by_minute and its reference", "top_routing_keys and its reference"}
        assert red_tables(judge_tables(spark, places)) == by_hour | traffic | {"silver/messages", "silver/quarantine"}
