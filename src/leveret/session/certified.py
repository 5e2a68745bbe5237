"""Logins by certificate (SASL EXTERNAL), for both protocols: who may use it, and whom the certificate names.

The certificate was verified by TLS before; here it becomes the name of a user, about whom auth/login.py decides.
Nothing the client says counts."""

from __future__ import annotations

from typing import Protocol

from leveret.broker.broker import Broker
from leveret.errors import LoginRefused
from leveret.runtime.network import SocketTransport
from leveret.session.settings import SessionSettings
from leveret.wire.sasl import offered_mechanisms


class Certified(Protocol):
    """A connection that logs in, by whichever protocol."""

    @property
    def broker(self) -> Broker: ...
    @property
    def transport(self) -> SocketTransport: ...
    @property
    def settings(self) -> SessionSettings: ...


def mechanisms_of(session: Certified) -> list[str]:
    """How this client may log in."""
    tls = session.transport.tls
    return offered_mechanisms(session.settings.mechanisms, tls is not None and tls.certificate is not None)


def certified_name(session: Certified, protocol: str) -> str:
    """The user whom the client's certificate names; raises LoginRefused if the name is missing or ambiguous."""
    tls = session.transport.tls
    # EXTERNAL is offered only to clients with a certificate.
    assert tls is not None and tls.certificate is not None
    try:
        return tls.certificate.login_name(session.settings.external_name)
    except ValueError as error:
        session.broker.logins.refuse(protocol)
        raise LoginRefused(str(error)) from None
