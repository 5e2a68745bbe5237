"""Every file in examples/ runs as it stands, against a broker of its own, and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "hello.py": "two coffees, one tea\n",
    "rpc.py": "12 squared is 144\n",
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
