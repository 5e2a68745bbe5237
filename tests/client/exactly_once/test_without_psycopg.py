"""Where psycopg is not installed: SQLite works, and whoever asks for PostgreSQL hears what is missing."""

from __future__ import annotations

import subprocess
import sys

from tests.client.exactly_once.scene import ROOT

SCRIPT = """
import sys
sys.modules["psycopg"] = None  # as if it were not there
from leveret.client import idempotent, outbox
assert idempotent.SqliteStore and outbox.SqliteOutbox
for ask in (lambda: idempotent.PostgresStore, lambda: outbox.PostgresOutbox):
    try:
        ask()
    except ModuleNotFoundError as missing:
        print(missing.name, missing)
"""


def test_only_postgres_needs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    line = "psycopg PostgreSQL needs psycopg 3: pip install 'psycopg[binary]'\n"
    assert (done.stdout, done.returncode) == (line * 2, 0), done.stderr
