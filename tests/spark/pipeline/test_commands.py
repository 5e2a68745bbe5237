"""`leveret pipeline`: what it takes, what it refuses, and a day in the shop from end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from leveret.client import blocking
from leveret.client.topology import Queue
from leveret.spark.pipeline.arguments import DEFAULT_URL, find_connection
from leveret.spark.pipeline.commands import pipeline
from leveret.spark.pipeline.demonstration.demo import DEAD_LETTERS, produce_day
from leveret.spark.pipeline.demonstration.demo_day import DOWN_FROM_MS, DOWN_TO_MS, day_of
from leveret.spark.pipeline.demonstration.demo_run import fresh_lake, run_jobs, show_tables
from leveret.spark.pipeline.failures import Failed
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.querying.views import make_views
from leveret.spark.pipeline.reporting.report import read_figures, write_report
from leveret.testing import Broker

JOBS = {"archive", "compact", "expire", "analytics", "deadletters", "replay", "report", "demo"}


def run(*words: str) -> Result:
    return CliRunner().invoke(pipeline, list(words))


def test_help_comes_without_spark() -> None:
    modules = "leveret.spark.pipeline.commands, leveret.spark.pipeline.querying.sql_command"
    code = f"import sys; import {modules}; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
    assert set(pipeline.commands) == JOBS
    for job in JOBS:
        assert run(job, "--help").exit_code == 0


def test_without_spark_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from leveret.node.cli import main; main(['pipeline', 'report'], prog_name='leveret')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "leveret: Spark is not installed: pip install 'leveret[spark]'\n")


@pytest.mark.parametrize(
    "words",
    [
        ("archive",),
        ("archive", "--stream", "a", "--compact-every", "often"),
        ("analytics", "--stream", "a", "--pattern", "b"),
        ("deadletters",),
        ("expire",),
    ],
)
def test_what_is_missing_is_said_before_spark_starts(words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2


def test_where_the_broker_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LEVERET_URL", raising=False)
    monkeypatch.delenv("LEVERET_AMQP_URL", raising=False)
    assert find_connection(None, None, None) == {"url": DEFAULT_URL}
    # Other commands know this variable as the address of the API.
    monkeypatch.setenv("LEVERET_URL", "https://mq:15671")
    assert find_connection(None, None, None) == {"url": DEFAULT_URL, "managementUrl": "https://mq:15671"}
    monkeypatch.setenv("LEVERET_URL", "amqp://mq/")
    assert find_connection(None, None, None) == {"url": "amqp://mq/"}
    monkeypatch.setenv("LEVERET_AMQP_URL", "amqp://ours/")
    assert find_connection(None, None, None)["url"] == "amqp://ours/"
    certificates = {"ca": "/ca.pem", "certificate": None, "key": None}
    assert find_connection("amqps://mq/", None, None, **certificates) == {"url": "amqps://mq/", "ca": "/ca.pem"}
    with pytest.raises(Failed, match="no file"):
        find_connection(None, None, str(tmp_path / "nothing"))


@pytest.mark.usefixtures("spark")
def test_errors_are_a_line_without_a_password(lake: Lake, broker: Broker) -> None:
    where = ("--lake", lake.root, "--once", "--stream", "orders", "--url")
    wrong = run("archive", *where, broker.url.replace("guest:guest", "guest:secret-word"))
    assert wrong.exit_code == 1
    missing = run("archive", *where, broker.url)
    assert missing.exit_code == 1
    assert "orders" in missing.output
    for each in (wrong, missing):
        assert "secret-word" not in each.output
        assert "\tat " not in each.output


def test_the_archive_goes_back_to_the_broker(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue("orders", queue_type="stream"), Queue("again"))
        connection.producer(routing_key="orders").publish_batch([b"%d" % number for number in range(50)])
    where = ("--lake", lake.root, "--url", broker.url)
    small = ("--once", "--max-per-batch", "25", "--compact-every")
    done = run("archive", *where, "--stream", "orders", "--group", "ours", *small, "never")
    assert done.exit_code == 0, done.output
    assert run("compact", *where).output.startswith("2 batches with 50 messages are compacted")
    back = run("replay", *where, "--where", "offset < 20", "--exchange", "", "--routing-key", "again", "--id", "r1")
    assert back.output.splitlines()[-1].startswith("20 of 20 messages"), back.output
    broker.queue("again").expect(count=20)
    refused = run("replay", *where)
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert run("expire", *where, "--older-than-days", "3").exit_code == 0


# Three jobs over 24 hours of tables: half a minute on a machine that does nothing else.
@pytest.mark.timeout(600)
def test_a_day_in_the_shop(
    spark: SparkSession, tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = fresh_lake(str(tmp_path / "lake"))
    connection = {"url": broker.url, "managementUrl": broker.management_url}
    produced = produce_day(broker.url, orders=600)
    run_jobs(spark, lake, connection)
    make_views(spark, lake, connection)

    def one(query: str) -> int:
        return int(spark.sql(query).collect()[0][0])

    assert one("select count(*) from archive") == produced.total
    # Every message of the shop is counted once, or in quarantine once; ids tell which came twice.
    known = one(f"select count(distinct message_id) from archive where stream != '{DEAD_LETTERS}'")
    assert one("select sum(messages) from traffic_by_minute") + one("select count(*) from quarantine") == known
    assert known < produced.total - produced.messages[DEAD_LETTERS]
    assert one("select count(*) from quarantine") > 0
    assert one("select sum(letters) from deadletters_by_hour") == produced.messages[DEAD_LETTERS]
    # The day is spread by its event times, not by when it was published.
    assert one("select count(distinct date_trunc('hour', minute)) from traffic_by_minute") > 12
    assert one("select count(*) from deadletter_clusters where error like 'ProviderTimeout%'") > 0

    show_tables(spark, lake, connection)
    printed = capsys.readouterr().out
    assert "Dead letters" in printed
    assert "payment.captured" in printed
    figures = read_figures(spark, lake)
    assert figures.messages == one("select sum(messages) from traffic_by_minute")
    assert 10 < (figures.latency_all["p50"] or 0) < 30_000
    assert "ProviderTimeout" in write_report(spark, lake).read_text("utf-8")


def test_the_day_is_the_same_every_time_and_has_a_story() -> None:
    day = day_of(500)
    assert day == day_of(500) != day_of(500, seed=9)
    assert [event.at_ms for event in day] == sorted(event.at_ms for event in day)
    charges = [event.at_ms for event in day if event.routing_key == "billing.charge"]
    down = [at for at in charges if DOWN_FROM_MS <= at < DOWN_TO_MS + 60_000]
    assert len(down) > len(charges) / 3
    assert len({event.message_id for event in day}) < len(day)


def test_only_a_lake_of_a_demonstration_is_made_anew(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(Failed, match="not empty"):
        fresh_lake(str(mine))
    assert (mine / "thesis.txt").exists()
    old = fresh_lake(str(tmp_path / "demo"))
    Path(old.root, "archive").mkdir()
    assert not Path(fresh_lake(old.root).root, "archive").exists()
