"""A broker as Spark's processes see it: connected when it is needed, asked from code that knows no event loop.

Spark pickles readers and writers to other processes, so this holds where the broker is and how to log in, and the
connection stays behind. Never retries what cannot get better, such as a wrong password."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from ssl import SSLContext
from typing import Any, TypeVar
from urllib.parse import quote

from leveret.client import connect
from leveret.client.connection import Connection
from leveret.client.errors import AuthenticationFailed, ChannelClosed, ClientError, InvalidUrl
from leveret.client.options import Options
from leveret.client.streams.stream_start import IDENTITY
from leveret.client.transport.recovery import State
from leveret.client.url import parse_urls
from leveret.spark.errors import InvalidOption, SourceFailed
from leveret.spark.options import find_password

__all__ = ["Broker", "is_hopeless", "is_vanished"]

T = TypeVar("T")
# What trying again does not mend: not allowed, not there, in use or wrong as it is, not built.
HOPELESS = (403, 404, 405, 406, 530, 540)
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 2.0
# A process of Spark's may not run its loop for minutes, so it could not answer heartbeats.
NO_HEARTBEAT = 0


def is_hopeless(error: BaseException) -> bool:
    if isinstance(error, ChannelClosed):
        return error.code in HOPELESS
    return isinstance(error, AuthenticationFailed | InvalidUrl) or not isinstance(error, ClientError)


def is_vanished(error: BaseException) -> bool:
    """Whether the broker says that a stream is deleted, or that another one has its name."""
    if not isinstance(error, ChannelClosed):
        return False
    return error.code == 404 or (error.code == 406 and IDENTITY in str(error))


class Broker:
    def __init__(self, options: Mapping[str, Any], name: str, recovers: bool = False) -> None:
        """One that recovers comes back by itself, with everything on it; else whoever uses it begins anew."""
        self._name = name
        self._recovers = recovers
        self.retry_s: float = options["retryTimeout"]
        self.management_url: str | None = options["managementUrl"]
        self.management_plain: bool = options["managementPlain"]
        try:
            addresses = parse_urls(options["url"])
        except InvalidUrl as error:
            raise InvalidOption(f"the option url: {error}") from None
        password = find_password(options)
        user = options["user"]
        if (user is None) != (password is None) and options["auth"] == "plain" and user is not None:
            raise InvalidOption("the option user takes a password: passwordFile, passwordEnv or password")
        self._urls = []
        for address in addresses:
            who = address.user if user is None else user
            secret = address.password if password is None else password
            host = f"[{address.host}]" if ":" in address.host else address.host
            query = "&".join(f"{key}={quote(value, safe='')}" for key, value in address.options)
            login = f"{quote(who, safe='')}:{quote(secret, safe='')}"
            place = f"{host}:{address.port}/{quote(address.vhost, safe='')}"
            self._urls.append(f"{'amqps' if address.tls else 'amqp'}://{login}@{place}{'?' + query if query else ''}")
        self.address = addresses[0]
        self.user = self.address.user if user is None else user
        self.password = self.address.password if password is None else password
        self.vhost = self.address.vhost
        wanted = {"ca": "ca", "certificate": "certificate", "key": "key", "serverName": "server_name"}
        self._tls = {ours: options[theirs] for theirs, ours in wanted.items() if options[theirs] is not None}
        self.server_name: str | None = options["serverName"]
        self._auth: str = options["auth"]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"<Broker {self.address}>"

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for equal brokers and logins."""
        return (*self._urls, self._auth, *sorted(self._tls.items()), self._name)

    def tls_context(self) -> SSLContext:
        """How certificates are checked, and which one is shown: for AMQP and for the HTTP API."""
        given = {name: path for name, path in self._tls.items() if name != "server_name"}
        return Options(**given).tls_context()

    # ---- from one process to another

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loop": None, "_connection": None}

    # ---- the connection

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    async def connection(self) -> Connection:
        """One that is open: the one there is, or another."""
        connection = self._connection
        if connection is not None and connection.link is not None:
            if not connection.link.ended.done() or (self._recovers and connection.state is not State.CLOSED):
                return connection
        if connection is not None:
            await connection.close()
        patience = self.retry_s if self._recovers else 0.0
        options = {"heartbeat": NO_HEARTBEAT, "give_up_after_s": patience, "name": self._name, "auth": self._auth}
        self._connection = await connect(self._urls, **options, **self._tls)
        return self._connection

    def run(self, call: Callable[[Connection], Awaitable[T]], doing: str) -> T:
        """Does something with the connection; again with another one if that is lost, as long as there is patience."""
        return self.loop.run_until_complete(self._run(call, doing))

    async def _run(self, call: Callable[[Connection], Awaitable[T]], doing: str) -> T:
        until = time.monotonic() + self.retry_s
        pause = PAUSE_FIRST_S
        while True:
            try:
                return await call(await self.connection())
            except ClientError as error:
                if is_hopeless(error) or time.monotonic() + pause > until:
                    raise SourceFailed(f"{doing} at {self.address} failed: {error}") from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)

    def close(self) -> None:
        loop, self._loop = self._loop, None
        connection, self._connection = self._connection, None
        if loop is not None:
            try:
                if connection is not None:
                    loop.run_until_complete(connection.close())
                loop.run_until_complete(loop.shutdown_asyncgens())
            finally:
                loop.close()
