"""The built files of the user interface are those that its source makes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.tidy.tree import ROOT
from tests.ui.node_modules import node_modules

BUILT = ROOT / "src/leveret/management/ui"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_what_is_built_names_what_is_there() -> None:
    page = (BUILT / "index.html").read_text()
    others = [name for name in contents(BUILT) if name != "index.html"]
    scripts = "".join((BUILT / name).read_text() for name in others if name.endswith(".js"))
    assert len(others) == 4
    for name in others:
        assert f"/assets/{name}" in page + scripts


def test_the_lock_file_has_hashes_and_no_addresses() -> None:
    lock = json.loads((ROOT / "ui/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert [name for name, one in packages.items() if "integrity" not in one or "resolved" in one] == []


def test_the_source_makes_the_built_files(tmp_path: Path) -> None:
    """In a copy, so that nothing of the tree is touched."""
    modules = node_modules()
    source = tmp_path / "ui"
    shutil.copytree(ROOT / "ui", source, ignore=shutil.ignore_patterns("node_modules"))
    (source / "node_modules").symlink_to(modules)
    checked = subprocess.run(
        ["npm", "run", "--silent", "check"], cwd=source, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    made = tmp_path / "made"
    done = subprocess.run(["node", "build.mjs", str(made)], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(made) == contents(BUILT), "run `make ui` and commit what it builds"
