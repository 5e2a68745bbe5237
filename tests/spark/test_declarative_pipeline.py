"""examples/declarative_pipeline runs as its README says, twice, and has each message once."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset
import pyspark
import pytest

import leveret
from leveret.spark.pipeline.demonstration.demo import DEAD_LETTERS, produce_day
from leveret.testing import Broker

NEEDED = ("grpc", "grpc_status", "google.protobuf", "google.rpc", "yaml", "zstandard")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name.partition(".")[0]) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        bool(MISSING), reason="Spark Connect is not installed: pip install 'pyspark[connect,pipelines]'"
    ),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative_pipeline"
SPARK_HOME = Path(pyspark.__file__).parent


def rows_of(folder: Path, table: str) -> list[dict[str, object]]:
    path = folder / "spark-warehouse" / table
    return pyarrow.dataset.dataset(path, format="parquet", exclude_invalid_files=True).to_table().to_pylist()


def run_pipeline(folder: Path, url: str) -> None:
    environment = {
        **os.environ,
        "LEVERET_AMQP_URL": url,
        "PYSPARK_PYTHON": sys.executable,
        # Spark's server looks for the connector in another folder than this one.
        "PYTHONPATH": str(Path(leveret.__file__).parents[1]),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    words = [SPARK_HOME / "bin" / "spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Run is COMPLETED" in done.stdout + done.stderr


@pytest.mark.timeout(1200)
def test_the_declarative_pipeline(tmp_path: Path, broker: Broker) -> None:
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/leveret-declarative-pipeline", str(tmp_path / "storage")))
    for seed in (1, 2):
        produced = produce_day(broker.url, orders=150, seed=seed)
        run_pipeline(folder, broker.url)
        messages = produced.total - produced.messages[DEAD_LETTERS]
        places = {(row["stream"], row["offset"]) for row in rows_of(folder, "bronze_messages")}
        assert len(places) == len(rows_of(folder, "bronze_messages")) == messages
        silver, quarantine = rows_of(folder, "silver_messages"), rows_of(folder, "silver_quarantine")
        assert len(silver) + len(quarantine) == messages
        letters = sum(int(str(row["letters"])) for row in rows_of(folder, "gold_dead_letters"))
        assert letters == produced.messages[DEAD_LETTERS]
