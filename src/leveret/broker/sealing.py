"""Passwords in the URIs of links as they stand on disk: encrypted (AES-256-GCM), with a key in a file of its own.

A URI with a password is sealed when the command that sets its parameter is written to the catalog's log, and opened
when it is read back. Where the key is missing or another one, the URI stays sealed and its link says so. Called by the
broker and its recovery only."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from leveret.catalog import commands
from leveret.catalog.commands import Command
from leveret.catalog.parameters import SEALED_PREFIX, SHOVEL, UPSTREAM, URI_KEYS
from leveret.catalog.records import Parameter
from leveret.errors import InvalidRequest
from leveret.runtime.files import create_file
from leveret.runtime.log import get_logger

__all__ = ["Sealer"]

log = get_logger(__name__)

KEY_BYTES, NONCE_BYTES = 32, 12


class Sealer:
    """`path` is where the key is, or will be when the first secret comes; `random` gives octets that nobody guesses."""

    def __init__(self, path: Path, random: Callable[[int], bytes]) -> None:
        self._path = path
        self._random = random
        self._key: bytes | None = None

    def seal(self, command: Command) -> Command:
        """Raises InvalidRequest if there is a secret and no key can be had: it is not written in the clear instead."""
        return self._changed(command, self._sealed)

    def open(self, command: Command) -> Command:
        return self._changed(command, self._opened)

    def _changed(self, command: Command, change: Callable[[Parameter, str], str]) -> Command:
        if isinstance(command, commands.Together):
            return commands.Together(tuple(self._changed(one, change) for one in command.commands))
        if not isinstance(command, commands.PutParameter) or command.parameter.component not in (SHOVEL, UPSTREAM):
            return command
        parameter = command.parameter
        value = parameter.value
        if not isinstance(value, dict):
            return command
        changed = {
            key: _each(inner, lambda uri: change(parameter, uri)) if key in URI_KEYS else inner
            for key, inner in value.items()
        }
        return commands.PutParameter(msgspec.structs.replace(parameter, value=changed))

    def _sealed(self, parameter: Parameter, uri: str) -> str:
        if uri.startswith(SEALED_PREFIX) or not _has_password(uri):
            return uri
        nonce = self._random(NONCE_BYTES)
        sealed = _cipher(self._key_or_new()).encrypt(nonce, uri.encode("utf-8", "surrogatepass"), _bound_to(parameter))
        return SEALED_PREFIX + base64.b64encode(nonce + sealed).decode()

    def _opened(self, parameter: Parameter, uri: str) -> str:
        if not uri.startswith(SEALED_PREFIX):
            return uri
        from cryptography.exceptions import InvalidTag

        try:
            octets = base64.b64decode(uri.removeprefix(SEALED_PREFIX), validate=True)
            opened: bytes = _cipher(self._read()).decrypt(
                octets[:NONCE_BYTES], octets[NONCE_BYTES:], _bound_to(parameter)
            )
            return opened.decode("utf-8", "surrogatepass")
        except (InvalidTag, OSError, ValueError, binascii.Error):
            log.error(
                "the URI of a link cannot be decrypted: its key is missing or another one; set the link anew",
                key=str(self._path),
                vhost=parameter.vhost,
                component=parameter.component,
                name=parameter.name,
            )
            return uri

    def _read(self) -> bytes:
        if self._key is None:
            key = self._path.read_bytes()
            if len(key) != KEY_BYTES:
                raise ValueError(f"the key has {len(key)} octets, not {KEY_BYTES}")
            self._key = key
        return self._key

    def _key_or_new(self) -> bytes:
        try:
            return self._read()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise InvalidRequest(f"the key for secrets of links cannot be read: {error}\n") from None
        key = self._random(KEY_BYTES)
        try:
            os.close(create_file(self._path, key))
        except OSError as error:
            raise InvalidRequest(f"the key for secrets of links cannot be written: {error.strerror}\n") from None
        self._key = key
        return key


def _each(given: Any, change: Callable[[str], str]) -> Any:
    if isinstance(given, list):
        return [_each(one, change) for one in given]
    return change(given) if isinstance(given, str) else given


def _has_password(uri: str) -> bool:
    """A URI that cannot be read may well have one; so may a query."""
    try:
        parts = urlsplit(uri)
        return parts.password is not None or "password=" in parts.query
    except ValueError:
        return True


def _bound_to(parameter: Parameter) -> bytes:
    """A sealed URI is of no use in another parameter."""
    return "\0".join((parameter.vhost, parameter.component, parameter.name)).encode("utf-8", "surrogatepass")


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
