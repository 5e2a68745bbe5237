"""ruff and mypy are content with the whole tree, and would say so if they were not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, tool_output

CHECKED = ("src", "tests", "benchmarks", "distributions", "setup.py")
CONFIG = str(ROOT / "pyproject.toml")


def test_ruff_finds_nothing() -> None:
    code, output = tool_output("ruff", "check", "--no-cache", *CHECKED)
    assert code == 0, output


def test_ruff_would_format_nothing() -> None:
    code, output = tool_output("ruff", "format", "--no-cache", "--check", *CHECKED)
    assert code == 0, output


@pytest.mark.timeout(600)
def test_mypy_finds_nothing() -> None:
    code, output = tool_output("mypy")
    assert code == 0, output


def test_mypy_finds_nothing_in_what_has_a_stub() -> None:
    files = [str(path.with_suffix(".py").relative_to(ROOT)) for path in (ROOT / "src").rglob("*.pyi")]
    code, output = tool_output("mypy", "--cache-dir=.mypy_cache/compiled", *files)
    assert code == 0, output


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        (("check", "--no-cache"), '"""A module."""\n\nimport os\n'),
        (("check", "--no-cache"), f'"""A module."""\n\nname = "{"x" * 120}"\n'),
        (("format", "--no-cache", "--check"), '"""A module."""\n\nname   = 1\n'),
    ],
    ids=["unused import", "long line", "unformatted"],
)
def test_ruff_fails_on(arguments: tuple[str, ...], source: str, tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(source)
    code, output = tool_output("ruff", *arguments, "--config", CONFIG, str(sample))
    assert code == 1, output


@pytest.mark.timeout(600)
def test_mypy_is_strict_outside_core_only(tmp_path: Path) -> None:
    for room in ("routing", "core"):
        folder = tmp_path / "leveret" / room
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").touch()
        (folder / "sample.py").write_text("def route(key):\n    return key\n")
    code, output = tool_output(
        "mypy", "--config-file", CONFIG, "--cache-dir", str(tmp_path / "cache"), "leveret", cwd=tmp_path, path="."
    )
    assert code == 1, output
    assert "routing/sample.py:1: error: Function is missing a type annotation" in output
    assert "core/sample.py" not in output
