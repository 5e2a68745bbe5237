"""`leveret backup` by the broker's socket and `leveret restore`: what they print and how they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner, Result

from leveret.node.cli import main
from leveret.testing import Broker


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="leveret")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    with Broker({"data_dir": str(root / "data"), "listen.socket": str(root / "s")}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for _ in range(7):
            channel.basic_publish("", "orders", b"hello", pika.BasicProperties(delivery_mode=2))
        connection.close()
        # Another process: the broker and the command would share a loop's thread otherwise.
        command = [sys.executable, "-m", "leveret", "backup", "--socket", str(root / "s"), "--to", "backup"]
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and b"backed up" in done.stderr, done
        again = subprocess.run(command, cwd=root, capture_output=True, timeout=60, check=False)
        assert again.returncode == 1 and b"not an empty directory" in again.stderr, again
    return root / "backup"


def test_a_restored_directory_is_whole_and_serves(made: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    result = run("restore", made, "--data-dir", new)
    assert result.exit_code == 0, result.output
    assert "1 durable queues with 7 messages, 0 streams" in result.output
    assert run("storage", "check", "--data-dir", new).exit_code == 0
    with Broker({"data_dir": str(new)}) as broker:
        assert broker.call(lambda node: node.broker.vhosts["/"].queues[b"orders"].ready_count()) == 7
        assert broker.call(lambda node: node.store.damages) == []


def test_it_refuses_and_leaves_nothing(made: Path, tmp_path: Path) -> None:
    result = run("restore", tmp_path, "--data-dir", tmp_path / "new")
    assert result.exit_code == 1 and "is not a backup, or one that was not finished" in result.output
    result = run("restore", made, "--data-dir", made)
    assert result.exit_code == 1
    assert not (tmp_path / "new").exists()
