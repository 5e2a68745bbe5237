"""From the protocol header to connection.open: who is it, what do we agree on, which virtual host.

Functions over a session, one per step. The slow part of a login runs off the loop while the session is suspended."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from leveret.auth.access import Access
from leveret.auth.identity import Identity, TokenBearer
from leveret.broker.product_name import Announced
from leveret.errors import AmqpError, HardError, LoginRefused
from leveret.runtime.log import get_logger
from leveret.session.certified import certified_name, mechanisms_of
from leveret.session.suspension import FOR_LOGIN
from leveret.wire.connection_methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from leveret.wire.negotiation import agree
from leveret.wire.sasl import EXTERNAL, Credentials, check_mechanism, parse_response

if TYPE_CHECKING:
    from leveret.session.session import Session

log = get_logger(__name__)

PROTOCOL = "amqp"
CLUSTER_ID = "internal_cluster_id"

CAPABILITIES: dict[str, Any] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


def server_properties(announced: Announced, cluster_name: str) -> dict[str, Any]:
    return {
        "capabilities": CAPABILITIES,
        "cluster_name": cluster_name,
        "copyright": "The Leveret authors",
        "information": "Licensed under the Apache License 2.0",
        "platform": f"Python {platform.python_version()}",
        **announced.server_properties,
    }


def send_start(session: Session) -> None:
    mechanisms = " ".join(mechanisms_of(session)).encode()
    properties = server_properties(session.broker.announced, session.settings.cluster_name)
    identity = session.broker.catalog.global_parameters.get(CLUSTER_ID)
    if identity is not None:
        # By which federation knows a broker again, whatever its name.
        properties["cluster_id"] = identity.value
    session.send(ConnectionStart(*session.protocol_version, properties, mechanisms, b"en_US"))


def start_ok(session: Session, method: ConnectionStartOk) -> None:
    session.client_properties = method.client_properties
    session.mechanism = method.mechanism
    if session.vouched_for is not None:
        accept_login(session, session.vouched_for)
        return
    check_mechanism(method.mechanism, mechanisms_of(session))
    if method.mechanism == EXTERNAL:
        _log_in_by_certificate(session)
        return
    try:
        credentials = parse_response(method.mechanism, method.response)
    except AmqpError as error:
        if error.code == 502:
            session.broker.logins.refuse()
            refuse_login(session, "?", str(error.text))
            return
        raise
    identity = session.broker.logins.recognise(credentials.user, credentials.password, session.peer[0])
    if identity is not None:
        accept_login(session, identity)
    else:
        session.wait_for(_authenticate(session, credentials), FOR_LOGIN)


def _log_in_by_certificate(session: Session) -> None:
    user = "?"
    try:
        user = certified_name(session, PROTOCOL)
        identity = session.broker.logins.admit(user, session.peer[0], PROTOCOL)
    except LoginRefused as error:
        refuse_login(session, user, error.reason)
    else:
        accept_login(session, identity)


async def _authenticate(session: Session, credentials: Credentials) -> None:
    # Why not; never the error itself, which has this frame in its traceback.
    refused: str | None = None
    try:
        identity = await session.broker.logins.authenticate(credentials.user, credentials.password, session.peer[0])
    except LoginRefused as error:
        refused = error.reason
    if session.gone:
        return
    if refused is None:
        accept_login(session, identity)
    else:
        refuse_login(session, credentials.user, refused)


def refuse_login(session: Session, user: str, reason: str) -> None:
    log.warning("login refused", user=user, peer=session.peer_name, mechanism=session.mechanism, reason=reason)
    if session.client_can("authentication_failure_close"):
        session.fail(
            HardError(
                403,
                f"Login was refused using authentication mechanism {session.mechanism}. "
                "For details see the broker logfile.",
            )
        )
    else:
        session.drop("login refused")


def accept_login(session: Session, identity: Identity) -> None:
    session.identity = identity
    session.user = identity.name
    session.offered = ConnectionTune(
        session.settings.channel_max, session.settings.frame_max, session.settings.heartbeat_s
    )
    session.expect(ConnectionTuneOk.METHOD)
    session.send(session.offered)


def tune_ok(session: Session, method: ConnectionTuneOk) -> None:
    assert session.offered is not None
    agreed = agree(session.offered, method)
    session.frame_max = agreed.frame_max or session.settings.frame_max
    session.channel_max = agreed.channel_max or session.settings.channel_max
    session.heartbeat_s = agreed.heartbeat
    session.core.frame_max = session.frame_max
    session.core.channel_max = session.channel_max
    session.expect(ConnectionOpen.METHOD)


def open_vhost(session: Session, method: ConnectionOpen) -> None:
    name = method.virtual_host
    vhost = session.broker.vhosts.get(name)
    if vhost is None:
        raise HardError(530, f"vhost {name} not found")
    if not session.identity.may_enter(name):
        raise HardError(530, f"access to vhost '{name}' refused for user '{session.user}'")
    session.broker.limits.take_place(session.connection_id, session.identity, name)
    session.vhost = vhost
    session.access = Access(session.identity, name)
    session.send(ConnectionOpenOk())
    session.opened()


def update_secret(session: Session, method: ConnectionUpdateSecret) -> None:
    """A newer token for the one that logged in. A password login has nothing to renew, as in RabbitMQ."""
    if isinstance(session.identity, TokenBearer):
        session.wait_for(_renew(session, method), FOR_LOGIN)
    else:
        session.send(ConnectionUpdateSecretOk())


async def _renew(session: Session, method: ConnectionUpdateSecret) -> None:
    refusal = ""
    try:
        identity = await session.broker.logins.authenticate_token(method.new_secret, session.peer[0])
        if identity.name != session.user:
            refusal = f"it is {identity.name}'s"
    except LoginRefused as error:
        refusal = error.reason
    if session.gone:
        return
    if refusal:
        log.warning("new secret refused", user=session.user, peer=session.peer_name, reason=refusal)
        session.fail(HardError(530, "New secret was refused by one of the backends", ConnectionUpdateSecret.METHOD))
    else:
        session.renew(identity)
        session.send(ConnectionUpdateSecretOk())


HANDLERS = {
    ConnectionStartOk.METHOD: start_ok,
    ConnectionTuneOk.METHOD: tune_ok,
    ConnectionOpen.METHOD: open_vhost,
}
