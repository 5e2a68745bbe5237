"""`pip install .` in a clean virtual environment: isolated build, dependencies, compiled modules, the command.

The compiler is asked not to optimize: that the modules compile with the flags of setup.py is what the installed package
shows, which all other tests use (tests/tidy/test_hardened.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.quick_compiler import quick_compiler
from tests.tidy.tree import ROOT, project_files


def ran(*command: str | Path, **environment: str) -> str:
    environ = {**os.environ, **environment}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_pip_install_needs_nothing_but_a_compiler(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for path in project_files():
        if path.parts[0] == "src" or len(path.parts) == 1:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, tree / path)
    binaries = tmp_path / "venv" / "bin"
    ran(sys.executable, "-m", "venv", tmp_path / "venv")
    ran(binaries / "pip", "--disable-pip-version-check", "--quiet", "install", tree, CC=quick_compiler(tmp_path))
    assert "--data-dir" in ran(binaries / "leveret", "serve", "--help")

    listing = "import leveret, pathlib; print(*pathlib.Path(leveret.__file__).parent.rglob('*'), sep='\\n')"
    installed = [Path(line) for line in ran(binaries / "python", "-c", listing).splitlines()]
    compiled = {path.name.partition(".")[0] for path in installed if path.suffix == ".so"}
    sources = (ROOT / "src/leveret").rglob("*.py")
    assert compiled == {path.stem for path in sources if path.with_suffix(".pxd").exists()}
    names = {path.name for path in installed}
    assert "py.typed" in names and "octets.pxd" in names
    assert not [path for path in installed if path.suffix == ".c"]
