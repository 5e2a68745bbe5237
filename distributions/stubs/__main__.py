"""Writes the stubs of all compiled modules beside them, sorted and wrapped by ruff: `make stubs`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from distributions.stubs.writer import stubs

RUFF = Path(sys.executable).with_name("ruff")
ONLY_STUBS = ("--quiet", "--no-cache", "--config", 'include = ["*.pyi"]')


def write_stubs(source: Path) -> list[Path]:
    """The stubs of a source tree that stands beside its pyproject.toml; those of modules that are gone are removed."""
    made = stubs(source)
    for path in set(source.rglob("*.pyi")) - set(made):
        path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    for step in (("check", "--fix", "--select", "I,UP"), ("format",)):
        subprocess.run([RUFF, *step, *ONLY_STUBS, source.name], cwd=source.parent, check=True)
    return sorted(made)


if __name__ == "__main__":
    write_stubs(Path(sys.argv[1]).resolve())
