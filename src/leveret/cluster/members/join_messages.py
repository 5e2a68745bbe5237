"""What a node that wants to join and the authority say to each other. Pure."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from leveret.cluster.links.frames import FrameError

REQUEST_BYTES_MAX = 8192
ANSWER_BYTES_MAX = 1 << 16
_T = TypeVar("_T")


class JoinRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    # The token's id and secret, in hex.
    token: str
    secret: str
    # What is to be signed, DER.
    request: bytes
    node_name: str
    address: str

    def __repr__(self) -> str:
        return f"JoinRequest(node_name={self.node_name!r}, address={self.address!r})"


class Joined(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cluster: str
    cluster_name: str
    node: int
    # PEM.
    certificate: bytes
    authority: bytes
    seeds: tuple[str, ...]


def pack(message: JoinRequest | Joined) -> bytes:
    return msgspec.json.encode(message)


def unpack(octets: bytes, kind: type[_T]) -> _T:
    """Raises FrameError, without a part of what came."""
    try:
        return msgspec.json.decode(octets, type=kind)
    except ValueError:
        raise FrameError(f"{len(octets)} octets that are no {kind.__name__}") from None
