"""The commands that the documents name exist."""

from __future__ import annotations

import re

import pytest

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


def test_an_unknown_target_is_noticed() -> None:
    assert make_targets("run: install\nPIP := x\ntest-pure: ## both\n") == {"run", "test-pure"}
    assert commands_named("```\nmake run\n```\nand `make fly` to make sure\n") == {"run", "fly"}
