"""docs/client-exactly-once.md, done as it says: its script on SQLite and PostgreSQL, and its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.testing import Broker
from tests.client.exactly_once.postgres_server import binaries, running_postgres

PAGE = (Path(__file__).parents[2] / "docs" / "client-exactly-once.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_script(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip("there is no PostgreSQL here; as root on Debian, `.ci/run system` installs it")
    script = "\n".join([*blocks("python"), "shop.close()\nbilling.close()\nconnection.close()\nbroker.stop()\n"])
    with running_postgres() as server:
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60,
            check=False, env={**os.environ, "SHOP_DSN": server.dsn()},
        )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_the_commands(tmp_path: Path) -> None:
    relay, *others = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]
    assert {words[0] for words in (relay, *others)} == {"python"} and len(others) == 2
    with Broker() as broker:
        command = [sys.executable, *(broker.url if word.startswith("amqp://") else word for word in relay[1:])]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            while "outbox relay is active" not in (line := process.stderr.readline()):
                assert line, "it ended"
            outputs = [
                subprocess.run(
                    [sys.executable, *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
                ).stdout
                for words in others
            ]
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.communicate()
    assert outputs == ["pending=0 parked=0 oldest_age_s=0\n", "unparked=0\npending=0 parked=0 oldest_age_s=0\n"]
