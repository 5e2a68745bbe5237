"""A command that prints a secret, such as the client of a secrets manager: run without a shell, for a bounded time,
with bounded output. What it says on its error output is logged, with the secret taken out. Blocks: not for the loop."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from leveret.runtime.log import get_logger
from leveret.runtime.secret import MASK

log = get_logger(__name__)

DEADLINE_S = 30.0
OUTPUT_BYTES_MAX = 64 * 1024
# Of what is said on the error output.
TOLD_BYTES_MAX = 4096
# How often it is looked whether the command has ended, if it prints nothing.
LOOK_S = 0.05


class CommandFailed(Exception):
    """Why there is no secret; never quotes what was printed."""


def secret_printed_by(words: Sequence[str], what: str, deadline_s: float = DEADLINE_S) -> bytes:
    """Its output, raises CommandFailed. `what` names the secret in the log."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # So that its children end with it, and signals of a terminal do not reach it.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandFailed(f"cannot be run: {reason}") from None
    try:
        printed, told, late = _heard(process, time.monotonic() + deadline_s)
    finally:
        _kill(process)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    _tell(told, printed, what)
    if late:
        raise CommandFailed(f"did not end within {deadline_s:g} s")
    if len(printed) > OUTPUT_BYTES_MAX:
        raise CommandFailed(f"prints more than {OUTPUT_BYTES_MAX} bytes")
    if process.returncode != 0:
        raise CommandFailed(f"ended with status {process.returncode}; the log has what it said")
    return printed


def _heard(process: subprocess.Popen[bytes], end_s: float) -> tuple[bytes, bytes, bool]:
    """What it prints and what it says, until it ends, prints too much, or its time is up: whether it was. One that it
    has left running in the background may keep both open, and is not waited for."""
    found = {process.stdout: bytearray(), process.stderr: bytearray()}
    most = {process.stdout: OUTPUT_BYTES_MAX + 1, process.stderr: TOLD_BYTES_MAX}
    with selectors.DefaultSelector() as selector:
        for pipe in found:
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ)
        while len(found[process.stdout]) <= OUTPUT_BYTES_MAX:
            ended = process.poll() is not None
            ready = selector.select(LOOK_S)
            for key, _ in ready:
                pipe = next(pipe for pipe in found if pipe is key.fileobj)
                part = os.read(key.fd, 65536)
                if not part:
                    selector.unregister(key.fileobj)
                found[pipe] += part[: most[pipe] - len(found[pipe])]
            if ended and not ready:
                break
            if not selector.get_map():
                # Nothing more can come; perhaps it closed its output early.
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(end_s - time.monotonic(), 0))
                break
            if time.monotonic() >= end_s:
                break
    late = process.poll() is None and len(found[process.stdout]) <= OUTPUT_BYTES_MAX
    return bytes(found[process.stdout]), bytes(found[process.stderr]), late


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started; what has left its session lives on, and is not waited for."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _tell(told: bytes, printed: bytes, what: str) -> None:
    secret = printed.strip()
    if secret:
        told = told.replace(secret, MASK.encode())
    for line in told.decode("utf-8", "replace").splitlines():
        if line.strip():
            log.warning("the command for a secret says", secret=what, line=line.strip())
