"""Joining a cluster: from a token to a certificate of this node. Blocks; run by `leveret cluster join`.

First it asks for the cluster's authority, without believing anything; if that is the one of the token, it connects
again and believes nobody else; only then does it send the token's secret. The key of the node never leaves it."""

from __future__ import annotations

import ssl

from leveret.cluster.links.address import Address
from leveret.cluster.links.frames import FrameError, FrameReader, Kind, frame
from leveret.cluster.links.handshake import proven_by
from leveret.cluster.links.hello import unpack_refusal
from leveret.cluster.members.certificates import (
    Key,
    fingerprint,
    fits,
    make_request,
    read_certificate,
)
from leveret.cluster.members.credentials import (
    Files,
    IdentityFile,
    check_names,
    own_key,
    read_identity,
    write_certificates,
    write_identity,
)
from leveret.cluster.members.join_messages import ANSWER_BYTES_MAX, Joined, JoinRequest, pack, unpack
from leveret.cluster.members.token import Token
from leveret.errors import JoinRefused
from leveret.runtime.certificate import read_certificates
from leveret.runtime.peers.exchange import exchange
from leveret.runtime.peers.tls_files import trusting_context

DEADLINE_S = 10.0


def join(files: Files, token: Token, node_name: str, address: Address, now: float) -> IdentityFile:
    """Raises JoinRefused, StartupError or ValueError."""
    if token.ends_at <= now:
        raise JoinRefused("the token has ended; make a new one with `leveret cluster token`")
    if token.address.path:
        raise JoinRefused("the token names a unix socket; nodes join over TLS, so make one with --address HOST:PORT")
    found = read_identity(files)
    check_names(node_name if found is None else found.cluster_name, node_name)
    authority_pem = _authority(token)
    if found is not None and files.authority.read_bytes() != authority_pem:
        raise JoinRefused(
            f"{files.directory} belongs to node {found.node} of the cluster {found.cluster_name!r}; to join another "
            "cluster, stop the node and remove that directory"
        )
    key = own_key(files)
    request = JoinRequest(token.id.hex(), token.secret.reveal(), make_request(node_name, key), node_name, str(address))
    answer = _ask(token, trusting_context(authority_pem.decode()), frame(Kind.JOIN, 0, pack(request)), Kind.JOINED)
    joined = unpack(answer, Joined)
    _check(joined, key, authority_pem)
    identity = IdentityFile(
        joined.cluster, joined.cluster_name, joined.node, node_name, str(address), tuple(joined.seeds)
    )
    write_certificates(files, joined.certificate, authority_pem)
    write_identity(files, identity)
    return identity


def _authority(token: Token) -> bytes:
    """The certificate of the authority, if it is the one of the token."""
    pem = _ask(token, trusting_context(None), frame(Kind.ASK_AUTHORITY, 0), Kind.AUTHORITY)
    try:
        is_it = fingerprint(read_certificate(pem)) == token.fingerprint
    except ValueError:
        is_it = False
    if not is_it:
        raise JoinRefused(
            f"the authority at {token.address} is not the one of the token: somebody else answers there, or the "
            "cluster was initialised again; nothing secret was sent"
        )
    return pem


def _check(joined: Joined, key: Key, authority_pem: bytes) -> None:
    """What came is what was asked for: the answer decides who this node is from now on."""
    try:
        certificate = read_certificate(joined.certificate)
        proven = proven_by(read_certificates(joined.certificate)[0].login_name("san_uri"))
        cluster = bytes.fromhex(joined.cluster)
        check_names(joined.cluster_name, "node")
    except ValueError as error:
        raise JoinRefused(f"the certificate that came cannot be read: {error}") from None
    if not fits(certificate, key, read_certificate(authority_pem)) or not proven.fits(cluster, joined.node):
        raise JoinRefused("the certificate that came is not for this node")


def _ask(token: Token, context: ssl.SSLContext, octets: bytes, wanted: Kind) -> bytes:
    host, port = token.address.host, token.address.port
    try:
        came = exchange(host, port, context, octets, ANSWER_BYTES_MAX, DEADLINE_S)
    except ssl.SSLCertVerificationError as error:
        raise JoinRefused(
            f"{token.address} does not have a certificate of the token's cluster: {error.verify_message}; nothing "
            "secret was sent"
        ) from None
    except OSError as error:
        raise JoinRefused(
            f"cannot ask {token.address}: {error.strerror or error}; is the node that made the token running, and is "
            "no firewall in between?"
        ) from None
    try:
        found = FrameReader((wanted, Kind.REFUSED), ANSWER_BYTES_MAX, ANSWER_BYTES_MAX).feed(came)
        if len(found) != 1:
            raise FrameError(f"{len(found)} answers")
        kind, _, answer = found[0]
        if kind == Kind.REFUSED:
            raise JoinRefused(f"{token.address} says: {unpack_refusal(answer)[1]}")
    except FrameError as error:
        raise JoinRefused(f"{token.address} did not answer as a node does: {error}") from None
    return answer
