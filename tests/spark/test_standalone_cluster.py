"""A real cluster: a standalone master with two workers runs the same job as `local[2]`, and finds the same.

The package comes to the workers in the two ways that a user has: installed where the workers' interpreter finds it, or
sent along with the job by `spark.archives`. (As a zip with --py-files it cannot be sent: its compiled modules are not
imported from there.) The broker, the lake and the workers are on this machine, so they share one disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import leveret
from leveret.client import blocking
from leveret.client.topology import Queue
from leveret.testing import Broker
from tests.spark.exactly_once.driver import ROOT, end_session, spawn_guarded
from tests.spark.exactly_once.ledger import Ledger
from tests.spark.exactly_once.places import SOURCE
from tests.spark.exactly_once.publisher import declare_streams, publish_numbers, read_stream
from tests.spark.standalone_cluster import MEMORY, StandaloneCluster

WORKERS: Final = 2
MESSAGES: Final = 2_000
JOB_S_MAX: Final = 400.0
INSTALLED: Final = Path(leveret.__file__).parent.parent
SMALL: Final = {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}
ON_CLUSTER: Final = {
    **SMALL,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": MEMORY,
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    # Nothing begins before both workers are there: else one might do it all.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}
UNPACKED: Final = "sent"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        declare_streams(running.url)
        yield running


@pytest.fixture(scope="module")
def ledger(broker: Broker) -> Ledger:
    made = Ledger()
    publish_numbers(broker.url, made, range(MESSAGES))
    return made


def run_job(master: str, name: str, broker: Broker, directory: Path, settings: dict[str, str]) -> dict[str, Any]:
    """Runs it as a process of its own, as a user does; nothing of it is left afterwards."""
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue(name, queue_type="stream"))
    findings, log = directory / f"{name}.json", directory / f"{name}.log"
    order = {"url": broker.url, "source": SOURCE, "target": name, "lake": str(directory / f"lake-{name}")}
    paper = directory / f"{name}-order.json"
    paper.write_text(json.dumps({**order, "settings": settings, "findings": str(findings)}))
    path = os.pathsep.join([str(ROOT), str(INSTALLED), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    process = spawn_guarded([sys.executable, "-m", "tests.spark.cluster_job", master, str(paper)], log, environment)
    try:
        status: int | None = process.wait(JOB_S_MAX)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        end_session(process.pid)
        process.wait()
    assert status == 0, f"the job on {master} ended with {status}:\n{log.read_text(errors='replace')[-6000:]}"
    found: dict[str, Any] = json.loads(findings.read_text())
    return found


@pytest.fixture(scope="module")
def local(broker: Broker, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job finds on one machine."""
    found = run_job("local[2]", "copy-local", broker, tmp_path_factory.mktemp("local"), SMALL)
    assert not ledger.compare(read_stream(broker.url, "copy-local"))
    return found


def package_as_archive(directory: Path) -> Path:
    """What `venv-pack` or `conda-pack` do with a whole environment, with our package alone: the workers' interpreter
    has the libraries."""
    packed = directory / "package.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for name in ("leveret", "pyspark_leveret"):
            archive.add(INSTALLED / name, name, filter=lambda one: None if "__pycache__" in one.name else one)
    return packed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Its workers find the installed package, as those of a user who has installed it there do."""
    environment = {"PYTHONPATH": str(INSTALLED)}
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), WORKERS, environment) as running:
        yield running
        pids = running.processes
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()], "a process of the cluster is left behind"


@pytest.mark.parametrize("way", ["installed", pytest.param("sent", marks=pytest.mark.long)])
def test_a_cluster_finds_what_one_machine_finds(
    way: str, cluster: StandaloneCluster, broker: Broker, ledger: Ledger, local: dict[str, Any], tmp_path: Path
) -> None:
    settings = dict(ON_CLUSTER)
    if way == "sent":
        settings["spark.archives"] = f"{package_as_archive(tmp_path)}#{UNPACKED}"
        # Instead of the workers' own: only what was sent is found.
        settings["spark.executorEnv.PYTHONPATH"] = UNPACKED
    found = run_job(cluster.master, f"copy-{way}", broker, tmp_path, settings)
    for what in ("archived", "live", "tasks", "rows"):
        assert found[what] == local[what], what
    assert sum(stream["messages"] for stream in found["archived"]) == MESSAGES
    assert not ledger.compare(read_stream(broker.url, f"copy-{way}"))
    # Both workers did some of it, each with the package that was meant.
    assert len({Path(folder).parents[1] for folder in found["folders"]}) == WORKERS, found["folders"]
    installed = str((INSTALLED / "leveret").resolve())
    assert (installed in found["packages"]) == (way == "installed"), found["packages"]
