"""amqplib, the client of node.js: each scenario is a small script in `node/` that prints what it saw."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.target import Target

SCRIPTS = Path(__file__).parent / "node"
WAIT_SECONDS_MAX = 60

pytestmark = pytest.mark.timeout(300)


def cache_directory() -> Path:
    """Where the package is installed once for every run; the project itself stays as it is."""
    package = json.loads((SCRIPTS / "package.json").read_text())
    version = package["dependencies"]["amqplib"]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "leveret-conformance" / f"amqplib-{version}"


@pytest.fixture(scope="module")
def node_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of installed packages."""
    for name in ("node", "npm"):
        if not shutil.which(name):
            pytest.skip(f"{name} is missing; install with: apt-get install nodejs npm")
    installed = cache_directory() / "node_modules"
    if (installed / "amqplib" / "package.json").exists():
        return installed
    # Installed beside the cache and then moved, so that a run that is cut short leaves nothing half done.
    fresh = tmp_path_factory.mktemp("amqplib")
    shutil.copy(SCRIPTS / "package.json", fresh)
    command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        pytest.skip(f"amqplib cannot be installed with npm install: {done.stderr[-500:]}")
    installed.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(fresh / "node_modules", installed, dirs_exist_ok=True)
    return installed


def run(script: str, target: Target, node_path: Path) -> Any:
    done = subprocess.run(
        ["node", str(SCRIPTS / script), target.url],
        env={**os.environ, "NODE_PATH": str(node_path)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_confirms(target: Target, node_path: Path) -> None:
    assert run("confirms.js", target, node_path) == {"events": ["returned lost 312", "confirmed"], "messageCount": 101}


def test_rpc(target: Target, node_path: Path) -> None:
    squares = {f"call {number}": str(number**2) for number in range(5)}
    assert run("rpc.js", target, node_path) == {"queue": squares, "direct": squares}


def test_exchanges(target: Target, node_path: Path) -> None:
    assert run("exchanges.js", target, node_path) == {
        "through": ["kern.info"],
        "fanout": ["kern.info", "cron.critical", "kern.critical", "cron"],
        "direct": ["cron"],
        "topic": ["kern.info", "cron.critical", "kern.critical"],
        "headers": ["cron"],
    }


def test_prefetch(target: Target, node_path: Path) -> None:
    result = run("prefetch.js", target, node_path)
    assert result["done"] == 9
    assert [result["returned"]] == result["held"]


def test_get(target: Target, node_path: Path) -> None:
    assert run("get.js", target, node_path) == {
        "empty": False,
        "first": ["first", False, 2],
        "again": ["first", True],
        "kept": True,
        "large": 300_000,
        "purged": 1,
        "deleted": 0,
    }


def test_errors(target: Target, node_path: Path) -> None:
    result = run("errors.js", target, node_path)
    assert "404 (NOT-FOUND) with message \"NOT_FOUND - no queue 'NAME-gone' in vhost '/'\"" in result["missing"]
    assert "406 (PRECONDITION-FAILED)" in result["other"]
    assert (
        "inequivalent arg 'durable' for queue 'NAME' in vhost '/': received 'true' but current is 'false'"
        in (result["other"])
    )
    assert result["cancelled"] is None
