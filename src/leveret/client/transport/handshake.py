"""How a link is opened: the socket, TLS, the login, and what both sides agree on."""

from __future__ import annotations

import asyncio
import math
import platform
import socket
from typing import Any

import msgspec

from leveret.client.errors import AuthenticationFailed, ClientError, ConnectionFailed, ConnectionLost
from leveret.client.options import EXTERNAL, Options
from leveret.client.transport.link import Link
from leveret.client.url import Address
from leveret.wire.connection_methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
)
from leveret.wire.method import Method
from leveret.wire.negotiation import Agreement, answer_tune

CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "exchange_exchange_bindings": True,
    "publisher_confirms": True,
}
ACCESS_REFUSED, NOT_ALLOWED = 403, 530
# What 530 says, too, and what has nothing to do with who we are: it may be otherwise later.
NOT_OUR_LOGIN = ("limit (", " is down", "negotiated ")


async def open_link(address: Address, options: Options, sock: socket.socket | None = None) -> Link:
    """Raises ConnectionFailed with the reason, or AuthenticationFailed. With `sock`, a unix socket that is connected,
    the address only says how to log in."""
    loop = asyncio.get_running_loop()
    # Made here, so that it can be ended whatever becomes of the socket.
    link = Link(loop)
    try:
        async with asyncio.timeout(options.connect_deadline_s):
            tls: dict[str, Any] = {}
            if address.tls:
                tls = {"ssl": options.tls_context(), "server_hostname": options.server_name or address.host}
            if sock is not None:
                await loop.create_unix_connection(lambda: link, sock=sock)
            else:
                await loop.create_connection(lambda: link, address.host, address.port, **tls)
            await _log_in(link, address, options)
            return link
    except TimeoutError:
        failure: ClientError = ConnectionFailed(f"{address} did not answer within {options.connect_deadline_s:g} s")
        link.fail(failure)
        raise failure from None
    except (OSError, UnicodeError) as error:
        # Of TLS, too: what is wrong with a certificate stands in its text. UnicodeError is of names that are none.
        link.fail(ConnectionLost("the handshake was given up"))
        raise ConnectionFailed(f"{address} cannot be reached: {getattr(error, 'strerror', None) or error}") from error
    except ConnectionLost as error:
        raise _explained(error, address) from error
    except BaseException:
        link.fail(ConnectionLost("the handshake was given up"))
        raise


def _explained(error: ConnectionLost, address: Address) -> ConnectionFailed:
    if error.code in (ACCESS_REFUSED, NOT_ALLOWED) and not any(words in error.reason for words in NOT_OUR_LOGIN):
        return AuthenticationFailed(f"{address} does not let us in: {error.code} {error.reason}")
    return ConnectionFailed(f"{address}: {error}")


async def _log_in(link: Link, address: Address, options: Options) -> None:
    start = await _expect(link, ConnectionStart)
    link.server_properties = dict(start.server_properties)
    mechanism = "EXTERNAL" if options.auth == EXTERNAL else "PLAIN"
    offered = start.mechanisms.decode("ascii", "replace").split()
    if mechanism not in offered:
        link.fail(ConnectionLost("no login that both sides know"))
        raise AuthenticationFailed(f"{address} offers the logins {', '.join(offered)}, not {mechanism}")
    response = b"" if mechanism == "EXTERNAL" else f"\0{address.user}\0{address.password}".encode()
    link.send(0, ConnectionStartOk(_client_properties(options), mechanism, response, "en_US"))
    try:
        tune = await _expect(link, ConnectionTune)
    except ConnectionLost as error:
        if error.code is None and not _tells_strangers(link):
            # It just hangs up.
            raise AuthenticationFailed(f"{address} hung up at the login: a wrong user or password?") from error
        raise
    agreed = answer_tune(tune, Agreement(options.channel_max, options.frame_max, math.ceil(options.heartbeat)))
    if not options.heartbeat:
        # To the broker 0 is none; only for whoever answers the tune it is no wish.
        agreed = msgspec.structs.replace(agreed, heartbeat=0)
    link.send(0, agreed)
    link.agree(Agreement(agreed.channel_max, agreed.frame_max, agreed.heartbeat))
    link.start_heartbeats(agreed.heartbeat)
    link.send(0, ConnectionOpen(address.vhost))
    await _expect(link, ConnectionOpenOk)


def _tells_strangers(link: Link) -> bool:
    """Whether the broker says so when it does not let somebody in: then a hang-up at the login is something else."""
    capabilities = link.server_properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("authentication_failure_close") is True


async def _expect(link: Link, kind: type[Any]) -> Any:
    method: Method = await link.hear()
    if not isinstance(method, kind):
        link.fail(ConnectionLost("the broker does not keep to the protocol"))
        raise ConnectionFailed(f"the broker sent {type(method).__name__} where {kind.__name__} was due")
    return method


def _client_properties(options: Options) -> dict[str, Any]:
    made: dict[str, Any] = {
        "product": "leveret.client",
        "platform": f"Python {platform.python_version()}",
        "capabilities": dict(CAPABILITIES),
    }
    if options.name:
        made["connection_name"] = options.name
    return {**made, **options.client_properties}
