"""One measurement: a broker of its own, both tenants, the decent client's process, and an attack beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import leveret
from benchmarks.broker.peers import Leveret, Running, free_port, running
from benchmarks.neighbour.attack import Attack, Ground, Tally
from benchmarks.neighbour.decent import GRACE_S, PROBE_DEADLINE_S
from benchmarks.neighbour.report import summary

ROOT = Path(__file__).resolve().parents[2]
MEMORY_PAUSE_S = 0.05
# How long an attack may take to notice that its time is over.
ATTACK_GRACE_S = 70.0
# The attack begins a little before the first message that counts.
LEAD_S = 0.3


class Attacked(Leveret):
    """The Leveret that this process has imported, wherever that is, with ports that are known."""

    def __init__(self) -> None:
        self.management_port = free_port()
        self.stream_port = free_port()

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        options = ["--host", "127.0.0.1", "--port", str(port), "--stream-port", str(self.stream_port)]
        options += ["--management-port", str(self.management_port), "--metrics-port", "off"]
        options += ["--data-dir", str(directory / "data")]
        with (directory / "output").open("ab") as output:
            command = [sys.executable, "-m", "leveret", "serve", *options]
            process = subprocess.Popen(
                command, cwd=directory, env=_environment(), stdout=output, stderr=output, start_new_session=True
            )
        return [process]


def _environment() -> dict[str, str]:
    """With this very tree first, whatever directory a process starts in."""
    source = Path(leveret.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}


def measure(attack: Attack | None, seconds: float, rate: int) -> dict[str, Any]:
    """The figures of a decent client beside this attack, or alone."""
    peer = Attacked()
    with running(peer, Path(tempfile.gettempdir())) as broker:
        ground = Ground(broker.port, peer.stream_port, peer.management_port)
        ground.settle()
        if attack is not None:
            attack.prepare(ground)
        tally = Tally()
        seen, memory = _beside(attack, tally, ground, broker, seconds, rate)
    figures = summary(seen)
    figures["memory_mib"] = memory
    figures.update(done=tally.done, refused=tally.refused, unit=attack.unit if attack is not None else "")
    return figures


def _beside(
    attack: Attack | None, tally: Tally, ground: Ground, broker: Running, seconds: float, rate: int
) -> tuple[dict[str, Any], float]:
    words = [str(ground.amqp_port), str(ground.management_port), str(seconds), str(rate)]
    command = [sys.executable, "-m", "benchmarks.neighbour.decent", *words]
    decent = subprocess.Popen(
        command, cwd=ROOT, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert decent.stdin is not None and decent.stdout is not None
    peak = 0.0
    try:
        if decent.stdout.readline() != "ready\n":
            raise RuntimeError("the decent client did not start")
        attacker = None
        if attack is not None:
            until = time.monotonic() + LEAD_S + seconds
            attacker = threading.Thread(target=attack.run, args=(ground, tally, until), daemon=True)
            attacker.start()
        time.sleep(LEAD_S)
        decent.stdin.write("go\n")
        decent.stdin.flush()
        end = time.monotonic() + seconds + GRACE_S + 2 * PROBE_DEADLINE_S + 10
        while decent.poll() is None and time.monotonic() < end:
            peak = max(peak, broker.rss_mib())
            time.sleep(MEMORY_PAUSE_S)
        answer = decent.communicate(timeout=5)[0]
        if attacker is not None:
            attacker.join(ATTACK_GRACE_S)
    finally:
        if decent.poll() is None:
            decent.kill()
            decent.wait()
        decent.stdin.close()
        decent.stdout.close()
    return json.loads(answer), peak
