"""Runs `leveret` commands in forks of one process that has everything imported: `python fork_server.py [BREAKAGE]`.

A start in a process of its own takes most of a second, nearly all of it for imports; a fork a few hundredths. A line of
JSON comes in for each request, one goes out for each answer: {"run": [...], "log": path, "descriptors": limit}
gives the process id, {"status": id} its exit status, or null while it runs."""

import atexit
import ctypes
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# What happens only after megabytes of commands, or a while later, is to happen within a short script.
QUICKENED: Final = {
    ("leveret.storage.catalog_log", "GROWN_BYTES_MIN"): 4096,
    ("leveret.storage.reclaim", "SPARSE_AGE_S"): 0.02,
    ("leveret.storage.reclaim", "COMPACTED_MIN"): 2,
}
_PR_SET_PDEATHSIG: Final = 1
_PRELOADED: Final = (
    "leveret.node.cli",
    "leveret.node.serve",
    "leveret.node.serve_command",
    "leveret.node.storage_commands",
    "leveret.node.config.loading",
    "leveret.storage.inspect",
)


def prepare(breakage: str | None) -> None:
    if breakage is not None:
        os.environ["LEVERET_PURE"] = "1"
        broken = runpy.run_path(str(Path(__file__).resolve().parent.parent / "broken_broker.py"))
        broken["BREAKAGES"][breakage]()
    for name in _PRELOADED:
        importlib.import_module(name)
    for (module, constant), value in QUICKENED.items():
        found = importlib.import_module(module)
        assert hasattr(found, constant), f"{module} has no {constant}: the enumeration quickens what does not exist"
        setattr(found, constant, value)


def become(request: dict[str, Any], parent: int) -> None:
    """In the fork: ends with the server, writes to its own log, and leads a group of its own."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    if request.get("descriptors"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (request["descriptors"], request["descriptors"]))


def statuses(children: dict[int, int | None]) -> None:
    for process in [each for each, status in children.items() if status is None]:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            children[process] = os.waitstatus_to_exitcode(status)


def requests() -> list[str] | None:
    """Answers requests; in a fork, the command that this is to run."""
    children: dict[int, int | None] = {}
    parent = os.getpid()
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "run" in request:
            process = os.fork()
            if not process:
                become(request, parent)
                command: list[str] = request["run"]
                return command
            children[process] = None
            answer: int | None = process
        else:
            statuses(children)
            answer = children[request["status"]]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for process in children:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    return None


def run(command: list[str]) -> int:
    """In the fork: what `leveret` would do, to its exit status."""
    from leveret.node.cli import main

    gc.enable()
    try:
        main(args=command, prog_name="leveret")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def leave(status: int) -> None:
    """Ends as the interpreter does, threads and all, but for freeing one object after the other: most pages are
    shared with the server, and would have to be copied for that."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    # This folder must not hide what Leveret imports.
    del sys.path[0]
    prepare(sys.argv[1] if len(sys.argv) > 1 else None)
    gc.disable()
    gc.freeze()
    words = requests()
    if words is not None:
        leave(run(words))
