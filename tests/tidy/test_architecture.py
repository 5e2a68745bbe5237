"""ARCHITECTURE.md names what exists: every dotted name and every path in it resolves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.tree import ROOT

SOURCE = ROOT / "src/leveret"
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
DOTTED = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)[`(]")
PATHS = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:/[\w]+)+(?:\.py)?)`")


def has(body: list[ast.stmt], names: list[str]) -> bool:
    """Whether a module or class defines this name, and what that defines the next one."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == names[0]:
            return len(names) == 1 or has(node.body, names[1:])
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if len(names) == 1 and names[0] in [target.id for target in targets if isinstance(target, ast.Name)]:
            return True
    return False


def resolves(name: str) -> bool:
    """Whether the longest part of the name that is a module defines the rest. Read, not imported: Spark may be
    missing."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        place = SOURCE / Path(*parts[:count])
        if (place / "__init__.py").exists():
            return count == len(parts)
        if place.with_suffix(".py").exists():
            return count == len(parts) or has(ast.parse(place.with_suffix(".py").read_text()).body, parts[count:])
    return False


def unresolved(text: str) -> list[str]:
    names = [name for name in DOTTED.findall(text) if not resolves(name)]
    paths = [name for name in PATHS.findall(text) if not (SOURCE / name).exists()]
    return names + [path for path in paths if not (SOURCE / f"{path}.py").exists()]


def test_every_name_in_the_architecture_exists() -> None:
    assert unresolved((ROOT / "ARCHITECTURE.md").read_text()) == []


def test_the_contributors_guide_names_what_exists() -> None:
    assert unresolved((ROOT / "CONTRIBUTING.md").read_text()) == []


def test_a_name_of_nothing_is_noticed() -> None:
    text = "`core.log.journal.Journal.keep`, `core.log.nothing.Journal`, `core.log.journal.Nothing`, `core/log/none.py`"
    assert unresolved(text) == ["core.log.nothing.Journal", "core.log.journal.Nothing", "core/log/none.py"]
