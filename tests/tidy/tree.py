"""The project's own files: what is, or is about to be, under version control. Read by the tidy checks only."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def project_files() -> list[Path]:
    """Every file that git tracks or would add, relative to the root."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = sorted(set(filter(None, listing.stdout.split("\0"))))
    return [Path(name) for name in names if (ROOT / name).is_file()]


def python_files(*folders: str) -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py" and path.parts[0] in folders]


def text_files() -> Iterator[tuple[Path, str]]:
    """Every project file that is text, with its text."""
    for path in project_files():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def tool_output(name: str, *arguments: str, cwd: Path = ROOT, path: str = "src") -> tuple[int, str]:
    """Runs a tool of this virtual environment; its exit code and all that it said."""
    tool = BIN / name
    assert tool.exists(), f"{name} is not installed beside {sys.executable}; run the tests with `make test`"
    done = subprocess.run(
        [str(tool), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
