"""`leveret` when somebody sits in front of it: tables that fit, questions, passwords that are not shown."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from leveret.testing import Broker
from tests.conformance.command_line import ROOT
from tests.http_client import Api

DEADLINE_S = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


def at_terminal(broker: Broker, *words: str, typed: tuple[tuple[str, str], ...] = ()) -> tuple[int, str]:
    """Its status and all it showed. Each of `typed` is a question and what is typed when it is asked."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "leveret", *words, "--url", broker.management_url]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment)
    os.close(slave)
    shown, answered, waiting = "", 0, list(typed)
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536).decode("utf-8", "replace")
                except OSError:
                    break
            elif process.poll() is not None:
                break
            if waiting and waiting[0][0] in shown[answered:]:
                answered = len(shown)
                os.write(master, f"{waiting.pop(0)[1]}\n".encode())
        return process.wait(DEADLINE_S), shown
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_table(broker: Broker, api: Api) -> None:
    name = "evil\x1b[2J" + "long" * 30
    api.put(f"/queues/%2F/{quote(name)}", {"durable": True})
    api.put("/queues/%2F/[bold]x", {"durable": True})
    status, shown = at_terminal(broker, "queues", "list")
    assert status == 0
    assert "messages_ready"[:8] in shown
    # Neither the terminal nor rich takes a name for a command.
    assert "\x1b[2J" not in shown
    assert "[bold]x" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(len(line) for line in plain.splitlines()) <= 100, plain
    for each in (name, "[bold]x"):
        api.delete(f"/queues/%2F/{quote(each)}")


@pytest.mark.parametrize(("answer", "status", "left"), [("n", 1, 200), ("y", 0, 404)])
def test_a_question(broker: Broker, api: Api, answer: str, status: int, left: int) -> None:
    api.put("/queues/%2F/asked", {"durable": True})
    ended, shown = at_terminal(broker, "queues", "delete", "asked", typed=(("[y/N]", answer),))
    assert "Delete queue asked and all its messages?" in shown
    assert (ended, api.get("/queues/%2F/asked").status) == (status, left)


def test_a_password_is_typed_twice_and_not_shown(broker: Broker) -> None:
    typed = (("Password of ann", "hidden"), ("Repeat", "hidden"))
    status, shown = at_terminal(broker, "users", "add", "ann", "--tag", "management", typed=typed)
    assert (status, "hidden" in shown) == (0, False)
    assert Api(broker, "ann", "hidden").get("/whoami").status == 200
