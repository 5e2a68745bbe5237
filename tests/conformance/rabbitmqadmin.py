"""rabbitmqadmin, the script that comes with RabbitMQ, as a process against an API."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

DEADLINE_S = 60


@dataclass(frozen=True)
class Printed:
    status: int
    out: str
    errors: str


@dataclass(frozen=True)
class Admin:
    """`options` stand in front of every command."""

    url: str
    home: str
    options: tuple[str, ...] = ()

    def run(self, *words: str, given: str = "") -> Printed:
        script = shutil.which("rabbitmqadmin")
        if script is None:
            pytest.skip("rabbitmqadmin is missing; install with: apt-get install rabbitmq-server")
        port = str(urlsplit(self.url).port)
        done = subprocess.run(
            [script, "-H", "127.0.0.1", "-P", port, *self.options, *words],
            # A home of its own: the user's may hold a .rabbitmqadmin.conf.
            env={"HOME": self.home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            input=given,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    def __call__(self, *words: str, given: str = "") -> str:
        """What it printed; it must succeed."""
        printed = self.run(*words, given=given)
        assert printed.status == 0, f"rabbitmqadmin {words}: {printed.out}{printed.errors}"
        return printed.out.rstrip("\n")

    def refused(self, *words: str) -> str:
        """The one line that it said when it failed."""
        printed = self.run(*words)
        assert printed.status == 1, printed
        assert printed.errors.startswith("*** "), printed.errors
        return printed.errors[4:].strip()

    def listed(self, kind: str, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("-f", "raw_json", *words, "list", kind))
        return found

    def named(self, kind: str, *words: str) -> list[str]:
        return [each["name"] for each in self.listed(kind, *words)]
