"""Names that explain themselves, docstrings that open modules, and a unit test for each compiled module."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.tree import ROOT, parsed, project_files, python_files

VAGUE_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "base"}


def vague_names(paths: Iterable[Path]) -> list[str]:
    """Files and folders with a word in their name that says nothing of what they hold."""
    return [str(path) for path in paths if any(VAGUE_WORDS & set(Path(part).stem.split("_")) for part in path.parts)]


def has_docstring(module: ast.Module) -> bool:
    return bool(ast.get_docstring(module)) or not module.body


def untested_core_modules(paths: Iterable[Path]) -> list[str]:
    """Compiled modules (a .py with a .pxd) without a test at the same place: core/log/scan.py is tested by
    tests/unit/core/log/test_scan.py."""
    known = set(paths)
    core = Path("src/leveret/core")
    compiled = [path for path in known if core in path.parents and path.suffix == ".py"]
    tests = {
        path.relative_to(core): Path("tests/unit/core") / path.relative_to(core).with_name(f"test_{path.name}")
        for path in compiled
        if path.with_suffix(".pxd") in known and path.stem != "__init__"
    }
    return sorted(str(path) for path, test in tests.items() if test not in known)


def test_no_name_is_vague() -> None:
    assert vague_names(path for path in project_files() if path.suffix in (".py", ".pxd", ".js", ".ts")) == []


def test_every_module_opens_with_a_docstring() -> None:
    paths = python_files("src", "tests", "benchmarks", "distributions", "examples")
    assert [str(path) for path in [*paths, Path("setup.py")] if not has_docstring(parsed(path))] == []


def test_every_compiled_module_has_a_unit_test() -> None:
    assert untested_core_modules(project_files()) == []


def test_vague_names_are_noticed() -> None:
    good = [Path("src/leveret/storage/segment.py"), Path("src/leveret/wire/database.py")]
    bad = [Path("src/leveret/utils.py"), Path("src/leveret/common/frame.py"), Path("tests/unit/test_queue_helpers.py")]
    assert vague_names([*good, *bad]) == [str(path) for path in bad]


def test_a_missing_docstring_is_noticed() -> None:
    assert not has_docstring(ast.parse("import sys\n"))
    assert has_docstring(ast.parse('"""What it owns."""\nimport sys\n'))
    assert has_docstring(ast.parse(""))


def test_an_untested_compiled_module_is_noticed() -> None:
    names = ("frame.py", "frame.pxd", "plain.py", "log/trie.py", "log/trie.pxd")
    core = [Path(f"src/leveret/core/{name}") for name in names]
    assert untested_core_modules([*core, Path("tests/unit/core/log/test_trie.py")]) == ["frame.py"]


def test_the_root_is_the_project() -> None:
    assert (ROOT / "pyproject.toml").exists()
