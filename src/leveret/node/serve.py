"""`leveret serve`: one node in the foreground until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable

import click
import uvloop

from leveret import PURE, __version__
from leveret.errors import StartupError, StoppedByFailure
from leveret.node.config.settings import Settings
from leveret.node.logs import configure_logs, set_log_level
from leveret.node.node import Node
from leveret.node.reload import Reloader
from leveret.runtime.log import get_logger
from leveret.runtime.service_manager import ServiceManager
from leveret.runtime.threads import started_pool

log = get_logger(__name__)

# For whatever is too long for the loop and has no thread of its own: password hashes, definitions, large answers.
WORKERS = 4

# What the start prints of what listens, by protocol and whether it is over TLS.
SHOWN = {
    ("amqp", False): "  AMQP 0-9-1  amqp://{place}",
    ("amqp", True): "  with TLS    amqps://{place}",
    ("stream", False): "  streams     rabbitmq-stream://{place}",
    ("stream", True): "  with TLS    rabbitmq-stream+tls://{place}",
    ("http", False): "  HTTP API    http://{place}/api/",
    ("http", True): "  HTTP API    https://{place}/api/",
    ("http/prometheus", False): "  metrics     http://{place}/metrics",
    ("http/prometheus", True): "  metrics     https://{place}/metrics",
}


def serve(read: Callable[[], Settings]) -> None:
    """`read` reads the configuration: now, and again at every SIGHUP."""
    # Until the node runs there is nothing to reload: the settings are being read right now.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    settings = read()
    configure_logs(settings.log_level, settings.log_format)
    _allow_many_connections()
    failure = _run(settings, read)
    if failure is not None:
        # A supervisor that starts us again is to know that this was no ordinary end.
        raise StoppedByFailure(failure)


def _run(settings: Settings, read: Callable[[], Settings]) -> str | None:
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        # Made here, where an error of the system still has a reason to be told.
        runner.get_loop()
    except OSError as error:
        raise StartupError(f"cannot start: {error}") from error
    try:
        return runner.run(_serve(settings, read))
    finally:
        try:
            runner.close()
        except RuntimeError as error:
            # It starts a thread to wait for the others, and there may be none to be had.
            log.warning("threads were not waited for", error=str(error))


def _allow_many_connections() -> None:
    """Every connection is a file descriptor: takes all that the system allows this process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(settings: Settings, read: Callable[[], Settings]) -> str | None:
    """Runs until it is told to stop, or the disk fails: then why."""
    loop = asyncio.get_running_loop()
    manager = ServiceManager(os.environ)
    try:
        loop.set_default_executor(started_pool("leveret-work", WORKERS))
        node = Node(settings)
        node.start()
    except OSError as error:
        raise StartupError(f"cannot start: {error}") from error
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    reloader = Reloader(lambda: node.settings, read, lambda new: _reload(node, new), manager.reloading)
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    # A terminal that was closed sends the same signal as an operator: nobody would see the broker live on.
    loop.add_signal_handler(
        signal.SIGHUP, lambda: stopped.set() if has_terminal and not sys.stdin.isatty() else reloader.ask()
    )
    _announce(node)
    manager.ready(f"serves clients from {node.store.root}")
    node.collector.manage()
    assert node.failure is not None
    node.failure.add_done_callback(lambda _: stopped.set())
    await stopped.wait()
    reloader.close()
    manager.stopping(node.failure.result() if node.failure.done() else "closes connections and syncs")
    with contextlib.suppress(OSError):
        click.echo("stopping", err=True)
    await node.stop()
    manager.close()
    return node.failure.result() if node.failure.done() else None


def _reload(node: Node, settings: Settings) -> list[str]:
    changed = node.reload(settings)
    set_log_level(node.settings.log_level)
    return changed


def _announce(node: Node) -> None:
    mode = " (interpreted: LEVERET_PURE is set)" if PURE else ""
    click.echo(f"leveret {__version__}{mode}, process {os.getpid()}")
    listening = [(one, f"[{one.host}]" if ":" in one.host else one.host) for one in node.listening()]
    for one, host in listening:
        if one.protocol == "http":
            click.echo(f"  web UI      {'https' if one.tls else 'http'}://{host}:{one.port}/")
    for one, host in listening:
        click.echo(SHOWN[one.protocol, one.tls].format(place=f"{host}:{one.port}"))
    click.echo(f"  data        {node.store.root}")
