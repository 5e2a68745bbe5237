"""The command line of the relay process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.client.outbox import SqliteOutbox
from leveret.client.outbox.process import main, opened
from tests.client.exactly_once.scene import ROOT, Database


@pytest.mark.usefixtures("leveret_logger")
def test_status_and_unpark(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    async def create() -> None:
        outbox = database.outbox()
        await outbox.create()
        await outbox.release()

    asyncio.run(create())
    database.add(("a", 1), ("a", 2))
    database.execute("UPDATE leveret_outbox SET attempts = 10, parked_at = created_at, error = 'x' WHERE id = 1")
    assert main(["--database", database.url, "--status"]) == 0
    assert capsys.readouterr().out.startswith("pending=1 parked=1 oldest_age_s=")
    assert main(["--database", database.url, "--unpark"]) == 0
    assert capsys.readouterr().out.startswith("unparked=1\npending=2 parked=0 ")


def test_a_broker_or_a_database_that_makes_no_sense_ends_it(tmp_path: Path) -> None:
    for database, broker, words in [
        ("mysql://shop", "amqp://localhost", "a database is sqlite:PATH"),
        (f"sqlite:{tmp_path}/shop.db", "http://localhost", "amqp"),
    ]:
        command = ["-m", "leveret.client.outbox", "--database", database, "--broker", broker]
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        assert words in done.stderr and "Traceback" not in done.stderr


def test_it_waits_for_a_broker_and_ends_when_told(tmp_path: Path) -> None:
    command = ["-m", "leveret.client.outbox", "--database", f"sqlite:{tmp_path}/shop.db", "--create"]
    process = subprocess.Popen(
        [sys.executable, *command, "--broker", "amqp://127.0.0.1:1/"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        while "outbox relay waits reason=" not in (line := process.stderr.readline()):
            assert line, "it ended"
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_database_is_named_by_a_url(tmp_path: Path) -> None:
    for url in ("sqlite:shop.db", "sqlite:///srv/shop.db", "sqlite:/srv/shop.db"):
        assert isinstance(opened(url), SqliteOutbox)
    for url in ("postgresql://localhost/shop", "postgres://localhost/shop", "host=localhost dbname=shop"):
        assert type(opened(url)).__name__ == "PostgresOutbox"
    with pytest.raises(ValueError, match="a database is"):
        opened("shop.db")
