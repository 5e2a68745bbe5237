"""docs/tls.md, done as it says: its openssl commands, its configuration, its clients."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leveret.catalog import commands as changes
from leveret.catalog.records import Permission, User
from leveret.testing import Broker

PAGE = (Path(__file__).parents[2] / "docs" / "tls.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def settings(directory: Path, *configurations: str) -> dict[str, Any]:
    """What the page has in its configuration, for free ports and files that are elsewhere."""
    chosen: dict[str, Any] = {}
    for text in configurations:
        for section, values in tomllib.loads(text).items():
            for key, value in values.items():
                is_file = isinstance(value, str) and (directory / value).is_file()
                chosen[f"{section}.{key}"] = str(directory / value) if is_file else value
    return {**chosen, "listen.tls_port": 0, "listen.stream_tls_port": 0}


def test_page(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    for commands in blocks("sh"):
        subprocess.run(["sh", "-e", "-c", commands], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    plain, mutual = blocks("toml")
    client, certified = blocks("python")
    imports = client.partition("\n\n")[0] + "\nimport pika\n"
    run(Broker(settings(tmp_path, plain)), client, tmp_path)
    run(Broker(settings(tmp_path, plain, mutual)), imports + certified, tmp_path)


def run(broker: Broker, script: str, directory: Path) -> None:
    assert "assert" in script and "5671" in script
    with broker:
        broker.call(lambda node: node.broker.apply(changes.PutUser(User("ann", "", ()))))
        broker.call(lambda node: node.broker.apply(changes.PutPermission(Permission("ann", "/", ".*", ".*", ".*"))))
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", script.replace("5671", str(broker.tls_port))],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 0, result.stderr
