"""The commands that the documents name exist, and the README's example runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from leveret.testing import Broker
from tests.tidy.tree import ROOT

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")


def make_targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, flags=re.MULTILINE))


def commands_named(document: str) -> set[str]:
    """`make x` in code: in backticks, or at the start of a line of a code block."""
    return set(re.findall(r"(?:`|^\s*(?:\$ )?)make ([a-z][a-z-]*)", document, flags=re.MULTILINE))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_named_in_documents_exist(name: str) -> None:
    targets = make_targets((ROOT / "Makefile").read_text())
    assert commands_named((ROOT / name).read_text()) - targets == set()


def test_readme_names_the_two_commands() -> None:
    assert {"run", "test"} <= commands_named((ROOT / "README.md").read_text())


def test_readme_example_runs() -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
    assert "127.0.0.1:5672" in code
    with Broker() as broker:
        example = code.replace("127.0.0.1:5672", f"{broker.host}:{broker.port}")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.stdout, done.stderr) == ("two coffees, one tea\n", "")


def test_an_unknown_target_is_noticed() -> None:
    assert make_targets("run: install\nPIP := x\ntest-pure: ## both\n") == {"run", "test-pure"}
    assert commands_named("```\nmake run\n```\nand `make fly` to make sure\n") == {"run", "fly"}
