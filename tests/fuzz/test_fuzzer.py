"""A short run of the Atheris fuzzer, so that it is known to work; `make fuzz` runs it for longer."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.effort import scaled

ROOT = Path(__file__).parents[2]
RUNS = 1500


@pytest.mark.timeout(3600)
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("Atheris is not installed: pip install atheris (Linux, up to Python 3.13)")
    command = [sys.executable, "-m", "tests.fuzz.fuzz_connection", f"-runs={scaled(RUNS)}", "-seed=1"]
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=3500,
        check=False,
    )
    found = {artifact.name: artifact.read_bytes() for artifact in tmp_path.iterdir()}
    assert done.returncode == 0, f"replay with test_one_input on: {found}\n{done.stderr[-6000:]}"
    assert "stat::number_of_executed_units" in done.stderr, done.stderr[-2000:]
