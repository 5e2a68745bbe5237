"""The type stubs of the compiled modules are those that their .py and .pxd give: `make stubs` writes them anew."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from distributions.stubs.__main__ import write_stubs
from distributions.stubs.declarations import Unreadable, read_declarations
from distributions.stubs.project import Project
from distributions.stubs.writer import stubs
from tests.tidy.tree import ROOT

SOURCE = ROOT / "src"


def test_the_stubs_are_what_the_sources_give(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pxd")]:
        copy = tmp_path / "src" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    made = {path.relative_to(tmp_path / "src"): path.read_text() for path in write_stubs(tmp_path / "src")}
    stored = {path.relative_to(SOURCE): path.read_text() for path in SOURCE.rglob("*.pyi")}
    assert len(made) > 80
    assert [str(path) for path in made if made[path] != stored.get(path)] == [], "run `make stubs`"
    assert set(stored) == set(made)


def test_a_stub_names_what_python_can_call() -> None:
    project = Project(SOURCE)
    module = "leveret.core.log.cold"
    tree = ast.parse(project.path(module).with_suffix(".pyi").read_text())
    (cold,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    names = {node.name for node in cold.body if isinstance(node, ast.FunctionDef)}
    declared = project.declarations(module).classes["ColdList"].functions
    assert {name for name, function in declared.items() if function.visible} <= names
    assert not names & {name for name, function in declared.items() if not function.visible}


def made_from(tmp_path: Path, pxd: str, py: str) -> str:
    (tmp_path / "a.pxd").write_text(pxd)
    (tmp_path / "a.py").write_text(py)
    (text,) = stubs(tmp_path).values()
    return text


PXD = """
cimport cython
from leveret.b cimport (
    Other,
)
cdef enum:
    HIDDEN = 1

@cython.final
cdef class One:
    cdef readonly unsigned long long count
    cdef public bint wanted
    cdef list hidden
    cdef readonly Other other
    @cython.locals(at=Py_ssize_t)
    cpdef Other find(self, bytes name, Py_ssize_t at)
    cdef int secret(self) except -1

cpdef int add(int a, double b=*) except -1
"""
PY = """
from leveret.b import Other
HIDDEN = 1
SEEN = 2
class One:
    def __init__(self, count, other=None):
        self.count = count
        self.other = other
    def find(self, name, at):
        return self.other if at else None
    def secret(self):
        return 0
    def plain(self):
        pass
def add(a, b=1.0):
    return a
"""


def test_types_come_from_the_pxd_and_none_from_the_py(tmp_path: Path) -> None:
    tree = ast.parse(made_from(tmp_path, PXD, PY))
    assert ast.unparse(tree).splitlines() == [
        "from leveret.b import Other",
        "from typing import final",
        "SEEN: int",
        "",
        "@final",
        "class One:",
        "",
        "    @property",
        "    def count(self) -> int:",
        "        ...",
        "    wanted: bool",
        "",
        "    @property",
        "    def other(self) -> Other | None:",
        "        ...",
        "",
        "    def __init__(self, count: int, other: Other | None=...) -> None:",
        "        ...",
        "",
        "    def find(self, name: bytes, at: int) -> Other | None:",
        "        ...",
        "",
        "    def plain(self) -> None:",
        "        ...",
        "",
        "def add(a: int, b: float=...) -> int:",
        "    ...",
    ]


def test_a_declaration_of_an_unknown_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pxd"
    path.write_text("cdef class One:\n    cdef readonly some_t value\n")
    with pytest.raises(Unreadable, match="some_t"):
        read_declarations(path)
