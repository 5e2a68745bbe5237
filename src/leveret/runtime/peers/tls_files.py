"""TLS between nodes: contexts that speak nothing below 1.3 and trust one authority, and the door of the side that
dials.

Names of hosts are not looked at: a certificate names a node, and whoever uses these contexts compares that."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from leveret.errors import StartupError
from leveret.runtime.tls_transport import TlsDoor


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """In PEM."""

    certificate: Path
    key: Path
    authority: Path


class DialDoor(TlsDoor):
    """Makes the transports of connections that this node dials."""

    dials = True


def accepting_context(files: TlsFiles, strangers: bool) -> ssl.SSLContext:
    """`strangers` lets those in who show no certificate: what they may say is the caller's business. Raises
    StartupError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A ticket would let a node in again without its certificate being looked at.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    _load(context, files)
    context.verify_mode = ssl.CERT_OPTIONAL if strangers else ssl.CERT_REQUIRED
    return context


def dialing_context(files: TlsFiles) -> ssl.SSLContext:
    """Shows our certificate and takes that of every node of the same authority. Raises StartupError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _load(context, files)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting_context(authority_pem: str | None) -> ssl.SSLContext:
    """For one that has no certificate yet: trusts this authority, or with None nobody, and then nothing secret may be
    sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    if authority_pem is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=authority_pem)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(cafile=files.authority)
    except (OSError, ValueError) as error:
        raise StartupError(
            f"the credentials {files.certificate}, {files.key} and {files.authority} cannot be used: {error}; "
            "join the node again with `leveret cluster join TOKEN`"
        ) from None
