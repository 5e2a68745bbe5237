"""The clients of `make test-clients`: pinned by versions and hashes, and in the docs with the version that is pinned.

None of them is run here: that takes compilers and minutes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.programs import CLIENTS, cargo_lock, pinned_jars, version_numbers, wrong_jars
from tests.tidy.tree import ROOT

PAGE = "docs/compatibility.md"


@pytest.mark.parametrize("key", CLIENTS)
def test_the_docs_name_the_version_that_is_run(key: str) -> None:
    client = CLIENTS[key]
    row = f"| {client.library} ({client.language}) | {client.version} |"
    assert row in (ROOT / PAGE).read_text(encoding="utf-8")


def test_every_crate_has_a_hash() -> None:
    pins = (ROOT / "tests/clients/rust/Cargo.pins").read_text(encoding="utf-8")
    packages = pins.split("[[package]]")[1:]
    assert len(packages) > 100
    # The program itself is the only one that no registry has.
    assert [package.split('"')[1] for package in packages if "checksum = " not in package] == ["clients"]


def test_a_lock_is_made_of_the_pins() -> None:
    pins = '[[package]]\nname = "a"\nversion = "1.0.0"\nchecksum = "aa"\n\n[[package]]\nname = "clients"\n'
    generated = '[[package]]\nname = "a"\nversion = "2.0.0"\nsource = "registry+somewhere"\nchecksum = "bb"\n'
    assert cargo_lock(pins, generated) == pins.replace("checksum", 'source = "registry+somewhere"\nchecksum')


def test_versions_of_tools_are_read() -> None:
    said = {
        "go version go1.26.8 linux/amd64": (1, 26, 8),
        'openjdk version "21" 2023-09-19': (21,),
        "\x1b[1mApache Maven 3.8.7\x1b[m": (3, 8, 7),
    }
    assert {text: version_numbers(text) for text in said} == said


def test_jars_that_are_not_as_pinned_are_noticed(tmp_path: Path) -> None:
    for name in ("good", "changed", "unknown"):
        (tmp_path / f"{name}.jar").write_text(name)
    digest = hashlib.sha256(b"good").hexdigest()
    pins = pinned_jars(f"{digest}  good.jar\n{digest}  changed.jar\n{digest}  missing.jar\n")
    assert wrong_jars(tmp_path, pins) == ["changed.jar", "missing.jar", "unknown.jar"]


def test_other_runs_collect_nothing_of_them() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LEVERET_CLIENTS"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/clients"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
