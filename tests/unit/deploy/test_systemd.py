"""The systemd unit: systemd finds nothing wrong with it, and the sandbox stays as tight as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from click.testing import CliRunner

from leveret.cli.target import SYSTEM_SOCKET
from leveret.node.cli import main

UNIT = Path(__file__).parents[3] / "deploy/systemd/leveret.service"
PROGRAM = "/opt/leveret/bin/leveret"
# By systemd's own scale: 0 is a program that can do nothing, 10 one that can do everything. It has 1.2.
EXPOSURE_MAX = 15


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("systemd-analyze")
    assert tool, "systemd-analyze is missing; as root on Debian: apt-get install --no-install-recommends systemd"
    return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, check=False)


def options() -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), flags=re.MULTILINE))


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    # Of the program nothing but its presence is looked at.
    file = tmp_path / UNIT.name
    file.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    done = analyzed("verify", "--man=no", str(file))
    ours = [line for line in (done.stdout + done.stderr).splitlines() if UNIT.name in line]
    assert (done.returncode, ours) == (0, [])


def test_systemd_would_find_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / UNIT.name
    file.write_text(UNIT.read_text().replace("Type=notify", "Type=wrong"))
    done = analyzed("verify", "--man=no", str(file))
    assert "Failed to parse service type" in done.stderr


def test_the_sandbox_is_tight() -> None:
    done = analyzed("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(UNIT))
    assert done.returncode == 0, done.stdout


def test_the_node_is_started_with_options_that_there_are() -> None:
    program, verb, *arguments = options()["ExecStart"].split()
    assert (program, verb) == (PROGRAM, "serve")
    text = CliRunner().invoke(main, ["serve", "--help"]).output
    assert [word for word in arguments if word.startswith("--") and word not in text] == []


def test_the_command_line_finds_the_node() -> None:
    assert options()["Environment"] == f"LEVERET__LISTEN__SOCKET={SYSTEM_SOCKET}"
    assert f"/run/{options()['RuntimeDirectory']}/leveret.sock" == SYSTEM_SOCKET


def test_a_node_that_is_told_to_stop_has_the_time_it_may_take() -> None:
    from leveret.node.node import FLUSH_DEADLINE_S, STOP_DEADLINE_S

    assert int(options()["TimeoutStopSec"]) > 2 * (FLUSH_DEADLINE_S + STOP_DEADLINE_S)
