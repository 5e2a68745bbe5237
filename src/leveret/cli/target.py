"""Which broker a command is for, and how it prints: options that every command takes, and contexts that remember them.

Without any of them it is the broker of this machine: by its unix socket, which asks for no password, or else
http://127.0.0.1:15672 as guest."""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from leveret.cli.client import Client, can_reach
from leveret.cli.exit_codes import Failed
from leveret.cli.output import FORMATS, TABLE

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_URL = "http://127.0.0.1:15672"
SYSTEM_SOCKET = "/run/leveret/leveret.sock"


@dataclass
class Target:
    """What a command is given."""

    client: Client
    vhost: str
    form: str


def config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "leveret"


def contexts_file() -> Path:
    return config_home() / "contexts.toml"


def read_contexts() -> dict[str, Any]:
    path = contexts_file()
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failed(f"cannot read {path}: {error}") from None


def default_sockets() -> list[str]:
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return [os.path.join(base, "leveret", "leveret.sock"), SYSTEM_SOCKET]


def make_client(
    url: str | None,
    socket_path: str | None,
    context: str | None,
    user: str | None,
    password_file: str | None,
    ca: str | None,
) -> tuple[Client, str]:
    """The client, and the virtual host that its context names."""
    contexts = read_contexts() if context or not (url or socket_path) else {}
    chosen = context or (contexts.get("current") if not (url or socket_path) else None)
    kept: dict[str, Any] = {}
    if chosen:
        kept = contexts.get("contexts", {}).get(chosen, {})
        if not kept:
            raise Failed(f"there is no context {chosen!r}; see `leveret context list`")
    url = url or kept.get("url")
    socket_path = socket_path or kept.get("socket")
    user = user or kept.get("user") or ""
    password = os.environ.get("LEVERET_PASSWORD", "")
    password_file = password_file or kept.get("password_file")
    if password_file:
        password = _read_password(password_file)
    password = password or kept.get("password", "")
    vhost = kept.get("vhost", "/")
    if not url and not socket_path:
        socket_path = next((path for path in default_sockets() if can_reach(path)), None) if not user else None
    if socket_path:
        return Client(os.path.abspath(socket_path), user, password), vhost
    return Client(url or DEFAULT_URL, user, password, ca or kept.get("ca", "")), vhost


def _read_password(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"cannot read the password from {path}: {error}") from None


def targeted(command: F) -> F:
    """Adds the options; the command gets a Target as its first argument."""

    @click.option("--url", envvar="LEVERET_URL", metavar="URL", help="Management API, such as https://host:15671.")
    @click.option(
        "--socket", "socket_path", envvar="LEVERET_SOCKET", metavar="PATH", help="Unix socket of a local broker."
    )
    @click.option("--context", "-c", envvar="LEVERET_CONTEXT", metavar="NAME", help="See `leveret context`.")
    @click.option(
        "--user", "-u", "login", envvar="LEVERET_USER", metavar="NAME", help="User name; not needed with the socket."
    )
    @click.option("--password-file", metavar="FILE", help="File with the password; or set LEVERET_PASSWORD.")
    @click.option("--ca", metavar="FILE", help="CA certificate that signed the broker's certificate.")
    @click.option("--vhost", "-p", envvar="LEVERET_VHOST", metavar="NAME", help="Virtual host.  [default: /]")
    @click.option("--output", "-o", "form", type=click.Choice(FORMATS), default=TABLE, help="[default: table]")
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        url: str | None,
        socket_path: str | None,
        context: str | None,
        login: str | None,
        password_file: str | None,
        ca: str | None,
        vhost: str | None,
        form: str,
        **options: Any,
    ) -> Any:
        client, of_context = make_client(url, socket_path, context, login, password_file, ca)
        return command(Target(client, vhost if vhost is not None else of_context, form), *arguments, **options)

    return wrapped  # type: ignore[return-value]
