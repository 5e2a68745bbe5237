"""How a connection behaves: every option once, with its default.

Those that a URL can carry in its query are read there too, see FROM_URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ssl import SSLContext, TLSVersion, create_default_context
from typing import Any

import msgspec

from leveret.client.errors import InvalidUrl
from leveret.client.tracing import Tracing
from leveret.client.url import Address
from leveret.wire.constants import FRAME_MIN_SIZE

__all__ = ["Options", "read_options"]

PLAIN, EXTERNAL = "plain", "external"
FROM_URL = {
    "heartbeat": float,
    "connect_deadline_s": float,
    "deadline_s": float,
    "name": str,
    "channel_max": int,
    "frame_max": int,
    "auth": str,
}

# What fits into the octets of the handshake. A frame that has no limit is not offered: any length would have to be
# believed.
LIMITS = (("heartbeat", 0, 65535), ("channel_max", 1, 65535), ("frame_max", FRAME_MIN_SIZE, 2**27))


class Options(msgspec.Struct, frozen=True, kw_only=True):
    # How operators see this connection.
    name: str = ""
    # Seconds between heartbeats, as a whole number; the broker's wish counts if it is shorter. 0 is none.
    heartbeat: float = 30.0
    # For one attempt to reach one host, handshakes included.
    connect_deadline_s: float = 10.0
    # For any question to the broker that names no deadline of its own.
    deadline_s: float = 30.0
    # For the orderly end of a connection.
    close_deadline_s: float = 5.0
    channel_max: int = 2047
    frame_max: int = 131072
    # "plain" with user and password, or "external": whom our TLS certificate names.
    auth: str = PLAIN
    # TLS. A context of one's own, or what one is made of; by default the system's authorities are trusted.
    ssl: SSLContext | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    # The name that the broker's certificate must have, if it is not the host's.
    server_name: str | None = None
    # Recovery: the pauses between attempts grow from the first to the second, and each is a random part of that.
    backoff_min_s: float = 0.1
    backoff_max_s: float = 30.0
    # How long the first connect goes on trying; and how long a lost connection is tried to recover, None for ever.
    wait_s: float = 0.0
    give_up_after_s: float | None = None
    client_properties: Mapping[str, Any] = {}
    # OpenTelemetry: True, or a Tracing of one's own, see tracing.py.
    tracing: bool | Tracing | None = None
    # Channels that producers share by turns, see pool.py.
    pool_size: int = 4
    # Whether the pool is filled before `connect` returns, or by the first who needs a channel of it.
    fill_pool: bool = False
    channels_max: int = 64

    def tls_context(self) -> SSLContext:
        if self.ssl is not None:
            return self.ssl
        context = create_default_context(cafile=self.ca)
        context.minimum_version = TLSVersion.TLSv1_2
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


def read_options(addresses: Sequence[Address], given: Mapping[str, Any]) -> Options:
    """What the first URL's query says, and above it what was given as arguments."""
    found: dict[str, Any] = {}
    for name, text in addresses[0].options:
        kind = FROM_URL.get(name)
        if kind is None:
            raise InvalidUrl(f"the URL's query names {name!r}; there are {', '.join(FROM_URL)}")
        try:
            found[name] = kind(text)
        except ValueError:
            raise InvalidUrl(f"the URL says {name}={text!r}, which is no number") from None
    found.update(given)
    unknown = found.keys() - set(Options.__struct_fields__)
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    options = Options(**found)
    if options.auth not in (PLAIN, EXTERNAL):
        raise ValueError(f"auth is {options.auth!r}, not {PLAIN!r} or {EXTERNAL!r}")
    for name in ("connect_deadline_s", "deadline_s", "close_deadline_s", "backoff_min_s"):
        # Not the other way round: nothing is true of "nan".
        if not getattr(options, name) > 0:
            raise ValueError(f"{name} is {getattr(options, name)}, and must be above 0")
    for name, least, most in LIMITS:
        if not least <= getattr(options, name) <= most:
            raise ValueError(f"{name} is {getattr(options, name)}, not from {least} to {most}")
    if options.backoff_max_s < options.backoff_min_s:
        raise ValueError("backoff_max_s is less than backoff_min_s")
    if not 1 <= options.pool_size <= options.channels_max:
        raise ValueError(f"pool_size is {options.pool_size}, not from 1 to channels_max, {options.channels_max}")
    return options
