"""A PostgreSQL server of our own in a temporary directory, on a unix socket, gone when the tests end.

The server refuses to run as root, so root lends it the account that Debian's package made."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

START_DEADLINE_S = 30.0
# Debian keeps the server's commands in a folder for each version.
PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def binaries() -> Path | None:
    """Where initdb and postgres are; None on a machine without them."""
    for place in PLACES:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    found = shutil.which("initdb")
    return Path(found).parent if found else None


def account() -> dict[str, Any]:
    """As whom the server runs, in subprocess's words."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresServer:
    def __init__(self, directory: Path) -> None:
        found = binaries()
        assert found is not None, "there is no PostgreSQL on this machine"
        self._binaries = found
        self._directory = directory
        self._server: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        who = account()
        if who:
            os.chown(directory, who["user"], who["group"])
        command = [
            found / "initdb",
            "-D",
            directory / "data",
            "-U",
            "leveret",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        done = subprocess.run(
            [*command, "--locale=C"], cwd=directory, capture_output=True, text=True, check=False, **account()
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def dsn(self) -> str:
        return f"host={self._directory} user=leveret dbname=postgres"

    def start(self) -> None:
        assert self._server is None
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._directory), "fsync": "off"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._directory / "data", *words],
                cwd=self._directory, stdout=log, stderr=log, **account(),
            )  # fmt: skip
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            try:
                psycopg.connect(self.dsn()).close()
                return
            except psycopg.OperationalError as error:
                assert time.monotonic() < deadline and self._server.poll() is None, error
                time.sleep(0.02)

    def stop(self) -> None:
        """At once, as after a power cut: sessions are dropped, the log is replayed at the next start."""
        if self._server is not None:
            server, self._server = self._server, None
            server.send_signal(3)
            server.wait(START_DEADLINE_S)

    def new_schema(self) -> str:
        """Gives a DSN whose tables are in an empty schema of its own; a database for each test would take its time."""
        self._schemas += 1
        name = f"test_{self._schemas}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.dsn()} options=-csearch_path={name}"


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    directory = Path(tempfile.mkdtemp(prefix="leveret-postgres-"))
    try:
        server = PostgresServer(directory)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
