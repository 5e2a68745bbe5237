"""setup.py: what is compiled is said, what has not changed is left alone, and compilers do not use up the memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.tree import ROOT

SETUP = ROOT / "setup.py"


def built(tree: Path) -> tuple[list[str], int]:
    """What a build prints about modules that it has compiled, and when the compiled module was made."""
    command = [sys.executable, "setup.py", "--quiet", "build_ext"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (library,) = tree.glob("build/lib*/leveret/core/one.*.so")
    return re.findall(r"^\[.*\] compiled .*", done.stdout, flags=re.MULTILINE), library.stat().st_mtime_ns


@pytest.mark.timeout(600)
def test_a_build_says_what_it_compiles_and_compiles_nothing_twice(tmp_path: Path) -> None:
    core = tmp_path / "src/leveret/core"
    core.mkdir(parents=True)
    for package in (core.parent, core):
        (package / "__init__.py").touch()
    (core / "one.py").write_text("class One:\n    pass\n")
    (core / "one.pxd").write_text("cdef class One:\n    cdef int number\n")
    shutil.copy(SETUP, tmp_path)
    said, made = built(tmp_path)
    assert said == ["[ 1/1] compiled leveret.core.one"]
    translated = core / "one.c"
    # Nothing in it is there for pickling.
    assert "__reduce_cython__" not in translated.read_text()
    assert built(tmp_path) == ([], made)
    # Other flags, other code: also of what Cython makes, although its sources are the same.
    later = translated.stat().st_mtime_ns + 10**9
    os.utime(tmp_path / "setup.py", ns=(later, later))
    before = translated.stat().st_ino, translated.stat().st_mtime_ns
    said, again = built(tmp_path)
    assert said == ["[ 1/1] compiled leveret.core.one"]
    assert again != made
    assert (translated.stat().st_ino, translated.stat().st_mtime_ns) != before


def jobs(monkeypatch: pytest.MonkeyPatch, processors: int, memory: Path) -> int:
    scope: dict[str, Any] = {"__name__": "setup", "__file__": str(SETUP)}
    exec(compile(SETUP.read_text().partition("\nJOBS =")[0], str(SETUP), "exec"), scope)
    count: Callable[[], int] = scope["jobs"]
    scope["MEMORY"] = memory
    with monkeypatch.context() as patched:
        patched.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
        return count()


@pytest.mark.parametrize(("processors", "mebibytes", "wanted"), [(2, 8192, 2), (64, 4096, 8), (4, 128, 1)])
def test_compilers_are_as_many_as_processors_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processors: int, mebibytes: int, wanted: int
) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text(f"MemFree:            1000 kB\nMemAvailable:   {mebibytes * 1024} kB\nBuffers: 5 kB\n")
    assert jobs(monkeypatch, processors, memory) == wanted
    assert jobs(monkeypatch, processors, tmp_path / "none") == processors


def test_make_shows_the_progress_of_the_build() -> None:
    """pip shows nothing of it."""
    rule = (ROOT / "Makefile").read_text().partition("$(VENV)/.installed: ")[2].partition("\n\n")[0]
    assert "setup.py --quiet build_ext" in rule.partition("$(PIP) install")[0]
