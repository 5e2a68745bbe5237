"""A token: the one line by which a new node finds a cluster, recognises it and is let in.

It has the fingerprint of the cluster's authority, an id, a secret, the end of its life and an address. Pure. A checksum
tells a line that was not copied completely from one that is wrong."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass

from leveret.cluster.links.address import Address, parse_address
from leveret.errors import ConfigError, JoinRefused
from leveret.runtime.secret import Secret

PREFIX = "leveret-token-1."
LIFE_S = 24 * 60 * 60
FINGERPRINT_BYTES = 32
ID_BYTES = 8
SECRET_BYTES = 24
_CHECK_BYTES = 4
# Fingerprint, id, secret, end of life in seconds of the wall clock.
_LAYOUT = struct.Struct(f"!{FINGERPRINT_BYTES}s{ID_BYTES}s{SECRET_BYTES}sQ")
_LINE_CHARACTERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Token:
    fingerprint: bytes
    id: bytes
    # In hex; never shown by accident.
    secret: Secret
    ends_at: int
    address: Address


def token_line(token: Token) -> str:
    """What an operator copies. Has the secret in it: for the terminal, never for a log."""
    secret = bytes.fromhex(token.secret.reveal())
    octets = _LAYOUT.pack(token.fingerprint, token.id, secret, token.ends_at) + str(token.address).encode()
    return PREFIX + base64.urlsafe_b64encode(octets + _check(octets)).decode().rstrip("=")


def parse_token(line: str) -> Token:
    """Raises JoinRefused, without a part of the line in its text."""
    line = line.strip()
    if not line.startswith(PREFIX) or len(line) > _LINE_CHARACTERS_MAX:
        raise JoinRefused(f"this is not a token; a token is one line that begins with {PREFIX}")
    text = line.removeprefix(PREFIX)
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        octets = b""
    body, check = octets[:-_CHECK_BYTES], octets[-_CHECK_BYTES:]
    if len(body) <= _LAYOUT.size or _check(body) != check:
        raise JoinRefused("the token is damaged or not complete; copy the whole line once more")
    fingerprint, token_id, secret, ends_at = _LAYOUT.unpack_from(body)
    try:
        address = parse_address(body[_LAYOUT.size :].decode())
    except (UnicodeDecodeError, ConfigError):
        raise JoinRefused("the token names no address; make a new one") from None
    return Token(fingerprint, token_id, Secret(secret.hex()), ends_at, address)


def secret_hash(secret: bytes) -> str:
    """What is stored. The secret is random and long: a plain hash tells nothing of it."""
    return hashlib.sha256(b"leveret token " + secret).hexdigest()


def _check(octets: bytes) -> bytes:
    return hashlib.sha256(octets).digest()[:_CHECK_BYTES]
