"""`leveret serve`: one node in the foreground until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable

import click
import uvloop

from leveret import PURE, __version__
from leveret.errors import StoppedByFailure
from leveret.node.config.settings import Settings
from leveret.node.logs import configure_logs, set_log_level
from leveret.node.node import Node
from leveret.node.reload import Reloader

# The data plane's objects are not tracked by the collector; the default would run it for the control plane's far
# too often.
GC_THRESHOLDS = (10_000, 20, 50)


def serve(read: Callable[[], Settings]) -> None:
    """`read` reads the configuration: now, and again at every SIGHUP."""
    # Until the node runs there is nothing to reload: the settings are being read right now.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    settings = read()
    configure_logs(settings.log_level, settings.log_format)
    _allow_many_connections()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        failure = runner.run(_serve(settings, read))
    if failure is not None:
        # A supervisor that starts us again is to know that this was no ordinary end.
        raise StoppedByFailure(failure)


def _allow_many_connections() -> None:
    """Every connection is a file descriptor: takes all that the system allows this process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(settings: Settings, read: Callable[[], Settings]) -> str | None:
    """Runs until it is told to stop, or the disk fails: then why."""
    node = Node(settings)
    node.start()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    reloader = Reloader(lambda: node.settings, read, lambda new: _reload(node, new))
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    # A terminal that was closed sends the same signal as an operator: nobody would see the broker live on.
    loop.add_signal_handler(
        signal.SIGHUP, lambda: stopped.set() if has_terminal and not sys.stdin.isatty() else reloader.ask()
    )
    _announce(node)
    # Everything made so far lives as long as the process: the collector need not look at it again.
    gc.freeze()
    assert node.failure is not None
    node.failure.add_done_callback(lambda _: stopped.set())
    await stopped.wait()
    reloader.close()
    with contextlib.suppress(OSError):
        click.echo("stopping", err=True)
    await node.stop()
    return node.failure.result() if node.failure.done() else None


def _reload(node: Node, settings: Settings) -> list[str]:
    changed = node.reload(settings)
    set_log_level(node.settings.log_level)
    return changed


def _announce(node: Node) -> None:
    mode = " (interpreted: LEVERET_PURE is set)" if PURE else ""
    click.echo(f"leveret {__version__}{mode}, process {os.getpid()}")
    host = f"[{node.host}]" if ":" in node.host else node.host
    click.echo(f"  AMQP 0-9-1  amqp://{host}:{node.port}")
    if node.tls_port is not None:
        click.echo(f"  with TLS    amqps://{host}:{node.tls_port}")
    if node.stream_port is not None:
        click.echo(f"  streams     rabbitmq-stream://{host}:{node.stream_port}")
    if node.stream_tls_port is not None:
        click.echo(f"  with TLS    rabbitmq-stream+tls://{host}:{node.stream_tls_port}")
    click.echo(f"  data        {node.store.root}")
