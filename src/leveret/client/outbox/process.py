"""The relay as a process: its command line, its signals, its log.

SIGTERM and SIGINT let it finish what is in hand. It waits for a broker or a database that is not there yet, so it may
be started in any order; several of them on one outbox are a relay with spares."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from leveret.client.connection import connect
from leveret.client.database.errors import DatabaseUnavailable
from leveret.client.errors import AuthenticationFailed, ClientError, ConnectionFailed
from leveret.client.outbox.relay import Relay, backed_off
from leveret.client.outbox.rows import OutboxDatabase
from leveret.client.outbox.sqlite import SqliteOutbox

__all__ = ["main", "opened"]

logger = logging.getLogger("leveret.client.outbox")
RETRY_S = 0.5
RETRY_MAX_S = 15.0
# What every record of logging has; the rest are our own fields.
PLAIN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m leveret.client.outbox",
        description="Publishes the rows of a transactional outbox, in order and with confirms.",
    )
    database, broker = os.environ.get("LEVERET_OUTBOX_DATABASE"), os.environ.get("LEVERET_OUTBOX_BROKER")
    add = parser.add_argument
    add("--database", default=database, required=database is None,
        help="sqlite:PATH or postgresql://...; else from LEVERET_OUTBOX_DATABASE")  # fmt: skip
    add("--broker", default=broker or "amqp://guest:guest@localhost/",
        help="amqp:// or amqps:// URL; else from LEVERET_OUTBOX_BROKER, which ps does not show")  # fmt: skip
    add("--table", default="leveret_outbox")
    add("--create", action="store_true", help="make the table unless it is there")
    add("--batch", type=int, default=100, metavar="ROWS", help="how many rows are fetched at a time (%(default)s)")
    add("--poll", type=float, default=1.0, metavar="S", help="how often to look for new rows (%(default)s)")
    add("--attempts", type=int, default=10, help="refusals after which a row is parked (%(default)s)")
    add("--keep", type=float, default=0.0, metavar="S", help="keep published rows that long; 0 deletes them at once")
    add("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--status", action="store_true", help="only say how many rows wait and how many are parked")
    only.add_argument("--unpark", action="store_true", help="only give parked rows another round of tries")
    options = parser.parse_args(arguments)
    set_up_log(options.log_level)
    try:
        asyncio.run(work(options))
    except (ClientError, ValueError, ImportError) as error:
        logger.error("outbox relay ended", extra={"reason": str(error)})
        return 1
    return 0


def opened(url: str, table: str = "leveret_outbox", keep_s: float = 0.0) -> OutboxDatabase:
    """The outbox that a URL names."""
    kind, colon, rest = url.partition(":")
    if colon and kind == "sqlite":
        # sqlite:shop.db and sqlite:/srv/shop.db; with sqlite:///srv/shop.db as others write it.
        return SqliteOutbox(rest[2:] if rest.startswith("//") else rest, table=table, keep_s=keep_s)
    if (colon and kind in ("postgres", "postgresql")) or "=" in url:
        from leveret.client.outbox.postgres import PostgresOutbox

        return PostgresOutbox(url, table=table, keep_s=keep_s)
    raise ValueError("a database is sqlite:PATH, postgresql://... or a DSN such as 'host=... dbname=...'")


async def work(options: argparse.Namespace) -> None:
    database = opened(options.database, options.table, options.keep)
    if options.status or options.unpark:
        try:
            if options.unpark:
                sys.stdout.write(f"unparked={await database.unpark()}\n")
            status = await database.status()
            sys.stdout.write(
                f"pending={status.pending} parked={status.parked} oldest_age_s={status.oldest_age_s:.0f}\n"
            )
        finally:
            await database.release()
        return
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        if options.create:
            await patiently(database.create, stopped)
        connection = await patiently(lambda: connected(options.broker), stopped)
        if connection is None:
            return
        async with connection:
            await relay_until(stopped, database, connection, options)
    finally:
        await database.release()


async def relay_until(
    stopped: asyncio.Event, database: OutboxDatabase, connection: Any, options: argparse.Namespace
) -> None:
    relay = Relay(
        database,
        connection.producer(),
        batch=options.batch,
        poll_s=options.poll,
        attempts_max=options.attempts,
    )
    running = asyncio.create_task(relay.run(), name="leveret-outbox-relay")
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        relay.stop()
        await running
        logger.info(
            "outbox relay stopped", extra={"published": relay.metrics.published, "failed": relay.metrics.failed}
        )


async def connected(url: str) -> Any:
    return await connect(url, name="leveret-outbox-relay")


async def patiently(attempt: Callable[[], Coroutine[Any, Any, Any]], stopped: asyncio.Event) -> Any:
    """Tries until it works; None if that was not before the end."""
    failures = 0
    while not stopped.is_set():
        try:
            return await attempt()
        except AuthenticationFailed:
            raise
        except (ConnectionFailed, DatabaseUnavailable) as error:
            failures += 1
            pause_s = backed_off(RETRY_S, failures, RETRY_MAX_S)
            logger.warning("outbox relay waits", extra={"reason": str(error), "pause_s": round(pause_s, 3)})
            try:
                async with asyncio.timeout(pause_s):
                    await stopped.wait()
            except TimeoutError:
                pass
    return None


class FieldFormatter(logging.Formatter):
    """One line per record, with our own fields behind the words."""

    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{name}={value!r}" for name, value in vars(record).items() if name not in PLAIN_FIELDS]
        return " ".join([super().format(record), *fields])


def set_up_log(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FieldFormatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger("leveret")
    root.addHandler(handler)
    root.setLevel(level.upper())
