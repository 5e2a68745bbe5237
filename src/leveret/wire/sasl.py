"""Login mechanisms: which are offered, and the responses of PLAIN and AMQPLAIN: from octets to a user and a password.

Never checks a password, and never puts a response into an error text: those are logged. Called by session/."""

from collections.abc import Iterable
from typing import NamedTuple

from leveret.core.codec.names import name_octets
from leveret.core.codec.tables import decode_table
from leveret.errors import HardError
from leveret.wire.limits import SASL_RESPONSE_BYTES_MAX

__all__ = ["EXTERNAL", "MECHANISMS", "Credentials", "check_mechanism", "offered_mechanisms", "parse_response"]

# The client is whom its certificate names. Its response is not looked at, as in RabbitMQ: clients send odd things.
EXTERNAL = "EXTERNAL"


class Credentials(NamedTuple):
    user: str
    # As it came: a password need not be UTF-8.
    password: bytes

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


def offered_mechanisms(configured: Iterable[str], has_certificate: bool) -> list[str]:
    """What a client may log in by: of what is configured, EXTERNAL only with a certificate that was verified."""
    return [name for name in configured if name in MECHANISMS or (name == EXTERNAL and has_certificate)]


def check_mechanism(mechanism: str, offered: Iterable[str]) -> None:
    """Raises HardError 503 in RabbitMQ's words if the mechanism was not offered."""
    if mechanism not in offered:
        known = mechanism in MECHANISMS or mechanism == EXTERNAL
        raise HardError(503, f"{'invalid' if known else 'unknown'} authentication mechanism '{mechanism}'")


def parse_response(mechanism: str, response: bytes) -> Credentials:
    """Raises HardError: 503 if the mechanism is none of ours, 502 if the response is malformed."""
    parse = MECHANISMS.get(mechanism)
    if parse is None:
        raise HardError(503, f"unknown authentication mechanism '{mechanism}'")
    if len(response) > SASL_RESPONSE_BYTES_MAX:
        raise HardError(502, f"{mechanism} response has {len(response)} bytes of at most {SASL_RESPONSE_BYTES_MAX}")
    return parse(response)


def _parse_plain(response: bytes) -> Credentials:
    """An identity to act as, the user, the password, with NULs between (RFC 4616). Acting as another is not offered."""
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise HardError(502, f"PLAIN response invalid: it has {len(parts) - 1} NULs, not 2")
    identity, user, password = parts
    if identity and identity != user:
        raise HardError(502, "PLAIN response invalid: it asks to act as another user")
    return Credentials(_decode_user("PLAIN", user), password)


def _parse_amqplain(response: bytes) -> Credentials:
    """A field table without its length, with LOGIN and PASSWORD in it."""
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response)
    except HardError:
        raise HardError(502, "AMQPLAIN response invalid: it is not a table") from None
    if "LOGIN" not in table or "PASSWORD" not in table:
        raise HardError(502, "AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    login, password = table["LOGIN"], table["PASSWORD"]
    if not isinstance(login, str) or not isinstance(password, str):
        raise HardError(502, "AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field")
    user = _decode_user("AMQPLAIN", name_octets(login))
    return Credentials(user, name_octets(password))


def _decode_user(mechanism: str, user: bytes) -> str:
    try:
        return user.decode("utf-8")
    except UnicodeDecodeError:
        raise HardError(502, f"{mechanism} response invalid: the user's name is not UTF-8") from None


# Mechanisms whose response names a user and a password.
MECHANISMS = {"PLAIN": _parse_plain, "AMQPLAIN": _parse_amqplain}
