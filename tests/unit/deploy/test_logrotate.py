"""The example for logrotate, run by logrotate: nothing that the broker logs is lost, and the file gets small."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "deploy/logrotate/leveret"


def test_a_log_is_rotated_while_it_is_written(tmp_path: Path) -> None:
    tool = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin")
    assert tool, "logrotate is missing; as root on Debian: apt-get install --no-install-recommends logrotate"
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o755)
    log = logs / "leveret.log"
    # The user of the service is not on this machine.
    text = re.sub(r"^ *su .*\n", "", EXAMPLE.read_text(), flags=re.MULTILINE).replace("/var/log/leveret", str(logs))
    file = tmp_path / "leveret"
    file.write_text(text)
    os.chmod(file, 0o644)
    # As systemd opens it for the broker.
    with log.open("ab", buffering=0) as output:
        output.write(b"before\n")
        for _ in range(2):
            command = [tool, "--force", "--state", str(tmp_path / "state"), str(file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            output.write(b"after\n")
    assert log.read_bytes() == b"after\n"
    assert (logs / "leveret.log.1").read_bytes() == b"after\n"
    assert len(list(logs.iterdir())) == 3
