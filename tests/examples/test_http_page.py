"""The page about messages over HTTP: its commands are one script, cut out of the page and run against a broker."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from leveret.testing import Broker

PAGE = Path(__file__).parents[2] / "docs" / "http-messages.md"


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_page() -> None:
    commands = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(commands) >= 7
    with Broker() as broker:
        api = f"http://guest:guest@127.0.0.1:{broker.management_port}/api"
        script = "\n".join(["set -euo pipefail", f"API={api}", *commands])
        ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
