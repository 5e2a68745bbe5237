"""Every file in examples/ runs as it stands, against a broker of its own, and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "dead_letters.py": "cannot be read: rejected in work\n"
    "nobody came: expired in work\n"
    "first: maxlen in work\n"
    "kills its workers: delivery_limit in work\n",
    "deduplication.py": "queue: ['order 1']\nqueue, later: ['order 2']\nexchange: ['order 3'] ['order 3']\n",
    "delayed_messages.py": "at once: 0 ms\ndrink tea: 600 ms\ncall back: 1200 ms\nwater the plants: 1800 ms\n",
    "hello.py": "two coffees, one tea\n",
    "retry_with_backoff.py": "works at last: worked after 2 retries\nnever works: rejected after 3 retries\n",
    "rpc.py": "12 squared is 144\n",
    "streams.py": "from the start: [19, 20, 22, 25]\n"
    "again, from the third: [22, 25]\n"
    "of the last hour: [19, 20, 22, 25]\n"
    "heat alarm: [19, 20, 22, 25]\n"
    "heat alarm, later: [31]\n",
    "topics.py": "created: order.eu.created, order.us.created\n"
    "european: order.eu.created, order.eu.paid\n"
    "expensive: order.us.created, order.eu.paid\n",
    "in_your_tests.py": "it does\n",
    "work_queue.py": "did task 3\n",
}


def test_every_example_is_run() -> None:
    assert set(SAYS) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_example(name: str) -> None:
    with Broker() as broker:
        result = subprocess.run(
            [sys.executable, str(EXAMPLES / name)],
            env={**os.environ, "AMQP_URL": broker.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 0, result.stderr
    if name == "work_queue.py":
        # Who does what is up to the race; each task is done once.
        assert sorted(line.split(" did ")[1] for line in result.stdout.splitlines()) == [
            f"task {number}" for number in range(9)
        ]
    else:
        assert result.stdout == SAYS[name]
