"""docs/testing.md: its snippets are tests that pytest runs as its readers would, and failures look as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.unit.node.process import environment

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FAILING = """

def test_coffee(leveret_broker, leveret_connection):
    leveret_connection.topology.declare(Queue("orders"))
    leveret_connection.producer().publish({"drink": "tea"}, routing_key="orders", message_id="order-1")
    leveret_broker.queue("orders").assert_published(body={"drink": "coffee"}, within_s=0.1)
"""


def run_pytest(folder: Path, text: str) -> str:
    (folder / "test_page.py").write_text(text)
    plugins = ("-p", "leveret.pytest_plugin", "-p", "anyio", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "."],
        cwd=folder,
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def snippets() -> str:
    return "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))


def test_the_snippets_pass(tmp_path: Path) -> None:
    assert "3 passed" in run_pytest(tmp_path, snippets())


def test_a_failure_looks_as_the_page_says(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```\n(AssertionError.*?)```", PAGE, flags=re.DOTALL)
    said = run_pytest(tmp_path, snippets() + FAILING)
    assert "1 failed, 3 passed" in said
    for line in shown.strip().splitlines():
        assert line.strip() in said, said
