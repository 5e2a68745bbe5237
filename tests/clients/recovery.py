"""A program that publishes and consumes while its broker is disturbed."""

from __future__ import annotations

import json
import selectors
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from tests.clients.brokers import Broker
from tests.clients.disturbances import Disturb
from tests.clients.programs import Program
from tests.conformance.topology import unique_name

LINE_SECONDS_MAX: Final = 120.0


def _line(process: subprocess.Popen[str], errors: Path) -> Any:
    """The next line that the program prints, which is JSON."""
    assert process.stdout is not None
    deadline = time.monotonic() + LINE_SECONDS_MAX
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(deadline - time.monotonic()), f"nothing printed:\n{errors.read_text()[-4000:]}"
    line = process.stdout.readline()
    assert line, f"the program has ended:\n{errors.read_text()[-4000:]}"
    return json.loads(line)


def recovered(program: Program, broker: Broker, disturb: Disturb, errors: Path) -> Any:
    """Disturbs when the program is ready and tells it when that is over; what it prints then."""
    name = unique_name("recovery")
    with errors.open("wb") as log, program.started("recovery", broker, name, log) as process:
        assert _line(process, errors) == {"event": "ready"}
        disturb(broker, process)
        assert process.stdin is not None
        process.stdin.write("calm\n")
        process.stdin.flush()
        return _line(process, errors)
