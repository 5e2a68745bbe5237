"""TLS doors of links: which contexts both sides use, and handshakes that fail with words that help."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from leveret.cluster.links.refusals import Refusal
from leveret.cluster.links.tls_errors import refusal_of
from leveret.runtime.peers.tls_files import DialDoor, TlsFiles, accepting_context, dialing_context
from leveret.runtime.tls_transport import TlsDoor, TlsTransport

Refuse = Callable[[str, Refusal], None]


class LinkCertificates:
    """The contexts of a node's links. `joinable` says whether somebody without a certificate may come in to join."""

    def __init__(self, files: TlsFiles, joinable: Callable[[], bool] = lambda: False) -> None:
        """Raises StartupError."""
        self._files = files
        self._joinable = joinable
        self.reload()

    def reload(self) -> None:
        """Reads the files again, for connections to come; raises StartupError, and then nothing has changed."""
        members = accepting_context(self._files, strangers=False)
        strangers = accepting_context(self._files, strangers=True)
        self.dialing = dialing_context(self._files)
        self._members, self._strangers = members, strangers

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection that is accepted."""
        return self._strangers if self._joinable() else self._members


class _Dialing:
    def __init__(self, certificates: LinkCertificates) -> None:
        self._certificates = certificates

    @property
    def context(self) -> ssl.SSLContext:
        return self._certificates.dialing


class AcceptDoor(TlsDoor):
    def __init__(self, loop: asyncio.AbstractEventLoop, certificates: LinkCertificates, refuse: Refuse) -> None:
        super().__init__(loop, certificates)
        self._refuse = refuse

    def refused(self, transport: TlsTransport, error: OSError, first_octets: bytes) -> None:
        self.handshakes_failed_total += 1
        self._refuse(f"{transport.peer[0]}:{transport.peer[1]}", refusal_of(error, first_octets))

    def explain(self, error: OSError, first_octets: bytes) -> str:
        return refusal_of(error, first_octets).text


class LinkDialDoor(DialDoor):
    def __init__(self, loop: asyncio.AbstractEventLoop, certificates: LinkCertificates, refuse: Refuse) -> None:
        super().__init__(loop, _Dialing(certificates))
        self._refuse = refuse

    def refused(self, transport: TlsTransport, error: OSError, first_octets: bytes) -> None:
        self.handshakes_failed_total += 1
        self._refuse(f"{transport.peer[0]}:{transport.peer[1]}", refusal_of(error, first_octets))

    def explain(self, error: OSError, first_octets: bytes) -> str:
        # In TLS 1.3 the other side looks at our certificate when we are done: its refusal comes behind the handshake.
        refusal = refusal_of(error, first_octets)
        if isinstance(error, ssl.SSLError):
            return f"{refusal.text}; {refusal.advice}"
        return refusal.text
