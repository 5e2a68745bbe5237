"""The login responses of PLAIN and AMQPLAIN: from octets to a user and a password.

Never checks a password, and never puts a response into an error text: those are logged. Called by session/."""

from typing import NamedTuple

from leveret.core.tables import decode_table
from leveret.errors import HardError
from leveret.wire.limits import SASL_RESPONSE_BYTES_MAX

__all__ = ["MECHANISMS", "Credentials", "parse_response"]


class Credentials(NamedTuple):
    user: str
    # As it came: a password need not be UTF-8.
    password: bytes

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


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
    user = _decode_user("AMQPLAIN", login.encode("utf-8", "surrogateescape"))
    return Credentials(user, password.encode("utf-8", "surrogateescape"))


def _decode_user(mechanism: str, user: bytes) -> str:
    try:
        return user.decode("utf-8")
    except UnicodeDecodeError:
        raise HardError(502, f"{mechanism} response invalid: the user's name is not UTF-8") from None


# What connection.start offers, in this order.
MECHANISMS = {"PLAIN": _parse_plain, "AMQPLAIN": _parse_amqplain}
