"""Passwords: good ones are found wherever they may be, wrong ones fail at once, and none is ever shown."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import publish_to
from tests.spark.tables import failure, finish, live, publish_rows, source, to_files

CANARY = "c4nary-pa55word"


@pytest.fixture(scope="module")
def guarded(broker: Broker) -> Iterator[Broker]:
    """The broker with a user whose password must not be seen, and a stream."""
    api = Api(broker)
    assert api.ask("PUT", "/users/ann", {"password": CANARY, "tags": "management"}).status in (201, 204)
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.ask("PUT", "/permissions/%2F/ann", rights).status in (201, 204)
    publish_to(broker, "guarded", [b"%d" % number for number in range(10)])
    publish_to(broker, "copies", [])
    return broker


def url_of(broker: Broker, login: str = "") -> str:
    return f"amqp://{login}{'@' if login else ''}{broker.host}:{broker.port}/"


def test_ways_to_give_a_password(spark: Any, guarded: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text(f"{CANARY}\n")
    ways: list[dict[str, Any]] = [
        {"url": url_of(guarded, f"ann:{CANARY}")},
        {"url": url_of(guarded), "user": "ann", "password": CANARY},
        {"url": url_of(guarded, "ann:wrong"), "passwordFile": str(file)},
    ]
    for options in ways:
        assert source(spark, guarded, "guarded", **options).count() == 10
        assert source(spark, guarded, streamPattern="guard.*", **options).count() == 10


def test_a_wrong_password_fails_at_once(spark: Any, guarded: Broker, tmp_path: Path) -> None:
    wrong = {"url": url_of(guarded, f"ann:{CANARY}x"), "retryTimeout": "60s"}
    table = spark.range(1).selectExpr("'x' as body")
    for call in (
        lambda: source(spark, guarded, "guarded", **wrong).collect(),
        lambda: finish(to_files(live(spark, guarded, "guarded", **wrong), tmp_path / "a")),
        lambda: publish_rows(table, guarded, routingKey="copies", **wrong),
        lambda: source(spark, guarded, streamPattern=".*", **wrong).collect(),
    ):
        begun = time.monotonic()
        text = failure(call)
        assert time.monotonic() - begun < 20
        assert CANARY not in text
        assert "ACCESS_REFUSED" in text or "401" in text or "refused" in text.lower(), text[-500:]


def test_no_plan_and_no_error_has_it(
    spark: Any, guarded: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    login = {"url": url_of(guarded, f"ann:{CANARY}")}
    for options in (login, {"url": url_of(guarded), "user": "ann", "password": CANARY}):
        table = source(spark, guarded, "guarded", **options).where("offset > 3")
        table.explain(True)
        table.explain("formatted")
        assert CANARY not in str(table)
        assert CANARY not in table._jdf.queryExecution().toString()
        assert CANARY not in failure(lambda options=options: source(spark, guarded, "missing", **options).collect())
        text = failure(lambda options=options: source(spark, guarded, "guarded", wrongOption="x", **options).collect())
        assert CANARY not in text
    query = to_files(live(spark, guarded, "guarded", startingOffsets="earliest", groupName="g", **login), tmp_path)
    finish(query)
    for progress in query.recentProgress:
        assert CANARY not in progress.json
    assert CANARY not in str(query.lastProgress)
    shown = capfd.readouterr()
    assert "offset" in shown.out
    assert CANARY not in shown.out
    assert CANARY not in shown.err


def test_nothing_that_spark_writes_has_it(guarded: Broker, tmp_path: Path) -> None:
    """Logs, with everything in them, event logs and checkpoints, of a program of its own."""
    program = Path(__file__).with_name("program_secrets.py")
    command = [sys.executable, str(program), f"{guarded.host}:{guarded.port}", "ann", CANARY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "INFO" in done.stderr
    assert "FAILED AS IT SHOULD" in done.stdout
    assert CANARY not in done.stdout
    places = [line for line in done.stderr.splitlines() if CANARY in line]
    assert not places, places[0][:500]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("events" in path.parts for path in written)
    assert any(path.parent.name == "offsets" for path in written)
    found = [str(path) for path in written if CANARY.encode() in path.read_bytes()]
    assert not found, found
    events = [path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file()]
    kinds = {json.loads(line)["Event"] for text in events for line in text.splitlines() if line.startswith("{")}
    assert any("SQLExecutionStart" in kind for kind in kinds)
