"""`leveret support-bundle`: one file with all that helps to find out what is wrong, and no secret in it."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from leveret import __version__
from leveret.cli.asking import done
from leveret.cli.exit_codes import Failed, NotAllowed
from leveret.cli.target import Target, targeted

HIDDEN = "***"
SECRET_KEY = re.compile(r"passw|secret|token|cookie|credential|private_?key", re.IGNORECASE)
# From the user's colon to the last @ before a blank, a comma or a quote.
PASSWORD_IN_URI = re.compile(r"(://[^:/@\s]*:)[^\s,\"']*@")
PASSWORD_IN_QUERY = re.compile(r"((?:passw|secret|token)\w*=)[^&\s,\"']+", re.IGNORECASE)
# What a client says of itself beyond these is its own affair.
CLIENT_PROPERTIES = ("product", "version", "platform", "connection_name")
LISTS = ("nodes", "vhosts", "queues", "exchanges", "connections", "channels", "consumers", "tasks", "audit")
OTHERS = ("overview", "definitions", "dead-letters", "feature-flags", "health/checks/alarms")
DEADLINE_S = 30.0


def without_secrets(value: Any, key: str = "") -> Any:
    """The same with passwords, hashes and the like hidden, wherever they stand."""
    if key == "client_properties" and isinstance(value, dict):
        return {name: value[name] for name in CLIENT_PROPERTIES if name in value}
    if SECRET_KEY.search(key) and value not in (None, "", [], {}):
        return HIDDEN
    if isinstance(value, dict):
        return {name: without_secrets(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    if isinstance(value, str):
        return PASSWORD_IN_QUERY.sub(rf"\1{HIDDEN}", PASSWORD_IN_URI.sub(rf"\1{HIDDEN}@", value))
    return value


@click.command("support-bundle")
@targeted
@click.argument("file", type=click.Path(path_type=Path))
def support_bundle(target: Target, file: Path) -> None:
    """Write the state of the broker into FILE.tar.gz for a support request; passwords are left out."""
    parts: dict[str, bytes] = {}
    problems: list[str] = []
    for path in (*OTHERS, *LISTS):
        name = f"{path.replace('/', '-')}.json"
        try:
            found = list(target.client.each(f"/{path}")) if path in LISTS else target.client.get(f"/{path}")
        except (Failed, NotAllowed) as error:
            problems.append(f"{name}: {error.message}")
            continue
        parts[name] = json.dumps(without_secrets(found), indent=1, ensure_ascii=False).encode("utf-8", "replace")
    for name, take in (("metrics.txt", _metrics), ("config.toml", _configuration)):
        try:
            parts[name] = take(target)
        except (Failed, OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
            problems.append(f"{name}: {error}")
    parts["versions.txt"] = f"leveret {__version__}\npython {sys.version}\nplatform {sys.platform}\n".encode()
    if problems:
        parts["problems.txt"] = "".join(f"{problem}\n" for problem in problems).encode()
    _write(file, parts)
    done(f"wrote {file}" + (f"; {len(problems)} parts are missing, see problems.txt in it" if problems else ""))


def _metrics(target: Target) -> bytes:
    """From the listener that the broker names, at the host that was asked."""
    listeners = target.client.get("/overview")["listeners"]
    listener = next((one for one in listeners if one["protocol"].startswith("http/prometheus")), None)
    if listener is None:
        raise Failed("the broker has no port for metrics")
    host: str = listener["ip_address"] if target.client.is_local else urlsplit(target.client.place).hostname or ""
    if host in ("", "0.0.0.0", "::"):
        host = "127.0.0.1"
    connection = http.client.HTTPConnection(host, listener["port"], timeout=DEADLINE_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(f"it answered {answer.status}")
        return answer.read()
    finally:
        connection.close()


def _configuration(target: Target) -> bytes:
    """As `leveret config show` has it here: of a broker that is elsewhere nothing is known."""
    if not target.client.is_local:
        raise Failed("the broker is not on this machine, or was not reached through its socket")
    command = [sys.executable, "-m", "leveret", "config", "show"]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def _write(file: Path, parts: dict[str, bytes]) -> None:
    stem = file.name.removesuffix(".gz").removesuffix(".tar") or "bundle"
    try:
        # It contains details of the installation, which other users need not see.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened, tarfile.open(fileobj=opened, mode="w:gz") as archive:
            for name, content in parts.items():
                entry = tarfile.TarInfo(f"{stem}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(content))
    except FileExistsError:
        raise Failed(f"{file} exists already") from None
    except OSError as error:
        raise Failed(f"cannot write {file}: {error.strerror}") from None
