"""The graph of native/raft: pinned whole, by name, version and checksum, and nothing says where it comes from."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from types import ModuleType

import pytest

from tests.tidy.tree import ROOT

NATIVE = ROOT / "native/raft"
PINS = tomllib.loads((NATIVE / "pins.toml").read_text())


def lock_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock_file", NATIVE / "build_backend/lock_file.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_crate_has_a_checksum_but_ours() -> None:
    bare = [package["name"] for package in PINS["package"] if "checksum" not in package]
    assert bare == ["leveret-raft"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", package.get("checksum", "0" * 64)) for package in PINS["package"])


def test_pins_name_no_address() -> None:
    assert "//" not in (NATIVE / "pins.toml").read_text()


def test_lock_and_pins_are_the_same_graph() -> None:
    lock = lock_file().lock_of(PINS)
    parsed = tomllib.loads(lock)
    assert lock_file().pins_of(parsed) == (NATIVE / "pins.toml").read_text()
    kept = [(package["name"], package["version"]) for package in PINS["package"]]
    assert [(package["name"], package["version"]) for package in parsed["package"]] == kept
    # Where a build has left its lock, that is the one.
    if (NATIVE / "Cargo.lock").exists():
        assert (NATIVE / "Cargo.lock").read_text() == lock


def test_the_graph_is_closed() -> None:
    names = {package["name"] for package in PINS["package"]}
    wanted = {name.split()[0] for package in PINS["package"] for name in package.get("dependencies", [])}
    assert wanted <= names and names - wanted == {"leveret-raft"}


def test_a_crate_from_elsewhere_is_refused() -> None:
    lock = {"version": 4, "package": [{"name": "raft", "version": "1", "source": "git+somewhere"}]}
    with pytest.raises(ValueError, match="raft comes from git"):
        lock_file().pins_of(lock)


def test_the_distribution_and_the_crate_have_one_version() -> None:
    crate = tomllib.loads((NATIVE / "Cargo.toml").read_text())["package"]
    project = tomllib.loads((NATIVE / "pyproject.toml").read_text())["project"]
    ours = next(package for package in PINS["package"] if package["name"] == "leveret-raft")
    assert crate["version"] == project["version"] == ours["version"]
    assert crate["rust-version"] in (NATIVE / "README.md").read_text()
