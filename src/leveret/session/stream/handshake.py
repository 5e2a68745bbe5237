"""From the first frame to Open: who is it, what do we agree on, which virtual host.

By the rules that session/handshake.py has for AMQP: the same logins, the same users that must be on this machine."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from leveret.auth.access import Access
from leveret.auth.identity import Identity
from leveret.broker.connected import OPENING, STARTING, TUNING
from leveret.errors import AmqpError, HardError, LoginRefused
from leveret.runtime.log import get_logger
from leveret.session.certified import certified_name, mechanisms_of
from leveret.session.suspension import FOR_LOGIN
from leveret.wire import stream_commands as commands
from leveret.wire.sasl import EXTERNAL, Credentials, parse_response
from leveret.wire.stream_codes import Code
from leveret.wire.stream_commands import Command

if TYPE_CHECKING:
    from leveret.session.stream.session import StreamSession

log = get_logger(__name__)

PROTOCOL = "stream"


class Step(enum.Enum):
    """What the client has done so far."""

    STARTING = 0
    LOGGED_IN = 1
    TUNED = 2
    OPEN = 3


# What the client sees to next.
STATES = {Step.STARTING: STARTING, Step.LOGGED_IN: TUNING, Step.TUNED: OPENING}


def take_step(session: StreamSession, command: Command) -> None:
    """Handles a command before the connection is open; raises if it is not this one's turn."""
    if isinstance(command, commands.PeerProperties) and session.step is Step.STARTING:
        session.client_properties = command.properties
        session.send(commands.PeerPropertiesResponse(command.correlation_id, Code.OK, server_properties(session)))
    elif isinstance(command, commands.SaslHandshake) and session.step is Step.STARTING:
        session.send(commands.SaslHandshakeResponse(command.correlation_id, Code.OK, mechanisms_of(session)))
    elif isinstance(command, commands.SaslAuthenticate) and session.step is Step.STARTING:
        log_in(session, command)
    elif isinstance(command, commands.Tune) and session.step is Step.LOGGED_IN:
        tune(session, command)
    elif isinstance(command, commands.Open) and session.step is Step.TUNED:
        open_vhost(session, command)
    else:
        raise HardError(503, f"{type(command).__name__} before the stream connection is open")


def server_properties(session: StreamSession) -> dict[str, str]:
    host, port = session.advertised
    return {
        **session.broker.announced.server_properties,
        "platform": "Python",
        "information": "Licensed under the Apache License 2.0",
        "copyright": "The Leveret authors",
        "cluster_name": session.settings.cluster_name,
        "advertised_host": host,
        "advertised_port": str(port),
    }


# ---- the login


def log_in(session: StreamSession, command: commands.SaslAuthenticate) -> None:
    session.mechanism = command.mechanism
    if command.mechanism not in mechanisms_of(session):
        session.broker.logins.refuse(PROTOCOL)
        end(session, command, Code.SASL_MECHANISM_NOT_SUPPORTED, "?", "a mechanism that is not offered")
        return
    if command.mechanism == EXTERNAL:
        _log_in_by_certificate(session, command)
        return
    try:
        credentials = parse_response(command.mechanism, command.data)
    except AmqpError as error:
        session.broker.logins.refuse(PROTOCOL)
        end(session, command, Code.SASL_ERROR, "?", str(error.text))
        return
    identity = session.broker.logins.recognise(credentials.user, credentials.password, session.peer[0], PROTOCOL)
    if identity is not None:
        accept(session, command, identity)
    else:
        session.wait_for(_authenticate(session, command, credentials), FOR_LOGIN)


def _log_in_by_certificate(session: StreamSession, command: commands.SaslAuthenticate) -> None:
    user = "?"
    try:
        user = certified_name(session, PROTOCOL)
        identity = session.broker.logins.admit(user, session.peer[0], PROTOCOL)
    except LoginRefused as error:
        end(session, command, _code_of(error), user, error.reason)
    else:
        accept(session, command, identity)


async def _authenticate(session: StreamSession, command: commands.SaslAuthenticate, credentials: Credentials) -> None:
    # Why not; never the error itself, which has this frame in its traceback.
    refused: tuple[int, str] | None = None
    try:
        identity = await session.broker.logins.authenticate(
            credentials.user, credentials.password, session.peer[0], PROTOCOL
        )
    except LoginRefused as error:
        refused = _code_of(error), error.reason
    if session.gone:
        return
    if refused is None:
        accept(session, command, identity)
    else:
        code, reason = refused
        end(session, command, code, credentials.user, reason)


def _code_of(refusal: LoginRefused) -> int:
    return Code.SASL_AUTHENTICATION_FAILURE_LOOPBACK if refusal.wrong_place else Code.AUTHENTICATION_FAILURE


def accept(session: StreamSession, command: commands.SaslAuthenticate, identity: Identity) -> None:
    session.identity = identity
    session.user = identity.name
    session.step = Step.LOGGED_IN
    session.send(commands.SaslAuthenticateResponse(command.correlation_id, Code.OK))
    session.send(commands.Tune(session.settings.stream_frame_max, session.settings.heartbeat_s))


def end(session: StreamSession, command: commands.SaslAuthenticate, code: int, user: str, reason: str) -> None:
    log.warning("login refused", user=user, peer=session.peer_name, mechanism=session.mechanism, reason=reason)
    session.broker.churn.stream_errors[code] += 1
    session.send(commands.SaslAuthenticateResponse(command.correlation_id, code))
    session.core.stop()
    session.transport.close()


def authenticate_again(session: StreamSession, command: commands.SaslHandshake | commands.SaslAuthenticate) -> None:
    """A client whose token ends brings a newer one on the open connection. It stays who it is, and keeps what it had
    if the new one is no good."""
    if isinstance(command, commands.SaslHandshake):
        session.send(commands.SaslHandshakeResponse(command.correlation_id, Code.OK, mechanisms_of(session)))
        return
    if command.mechanism != session.mechanism:
        session.refuse(command, Code.SASL_CANNOT_CHANGE_MECHANISM, "it is not the mechanism of the login")
        return
    try:
        credentials = parse_response(command.mechanism, command.data)
    except AmqpError as error:
        session.refuse(command, Code.SASL_ERROR, str(error.text))
        return
    session.wait_for(_renew(session, command, credentials), FOR_LOGIN)


async def _renew(session: StreamSession, command: commands.SaslAuthenticate, credentials: Credentials) -> None:
    try:
        identity = await session.broker.logins.authenticate(
            credentials.user, credentials.password, session.peer[0], PROTOCOL
        )
    except LoginRefused as error:
        if not session.gone:
            session.refuse(command, Code.AUTHENTICATION_FAILURE, error.reason)
        return
    if session.gone:
        return
    if identity.name != session.user:
        session.refuse(command, Code.SASL_CANNOT_CHANGE_USERNAME, f"the connection is {session.user}'s")
    else:
        session.renew(identity)
        session.send(commands.SaslAuthenticateResponse(command.correlation_id, Code.OK))


# ---- agreeing, and the virtual host


def tune(session: StreamSession, command: commands.Tune) -> None:
    """The client says what it wants of what was offered; 0 is no limit, and so ours."""
    offered = session.settings.stream_frame_max
    session.frame_max = min(command.frame_max, offered) if command.frame_max else offered
    # Not what was agreed on: some clients send longer frames than they have agreed on, and RabbitMQ takes them.
    session.core.frame_max = offered
    session.heartbeat_s = command.heartbeat
    session.step = Step.TUNED


def open_vhost(session: StreamSession, command: commands.Open) -> None:
    name = command.virtual_host
    vhost = session.broker.vhosts.get(name)
    refusal = None
    if vhost is None or not session.identity.may_enter(name):
        refusal = "not there, or not allowed"
    else:
        try:
            session.broker.limits.take_place(session.connection_id, session.identity, name)
        except HardError as error:
            refusal = error.text
    if vhost is None or refusal is not None:
        log.info("virtual host refused", user=session.user, peer=session.peer_name, vhost=name, reason=refusal)
        session.broker.churn.stream_errors[Code.VIRTUAL_HOST_ACCESS_FAILURE] += 1
        session.send(commands.OpenResponse(command.correlation_id, Code.VIRTUAL_HOST_ACCESS_FAILURE, {}))
        session.core.stop()
        session.transport.close()
        return
    session.vhost = vhost
    session.access = Access(session.identity, name)
    host, port = session.advertised
    properties = {"advertised_host": host, "advertised_port": str(port)}
    session.send(commands.OpenResponse(command.correlation_id, Code.OK, properties))
    session.step = Step.OPEN
    session.opened()
