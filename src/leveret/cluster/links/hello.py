"""What two nodes tell each other first: who they are, in which life, which levels they speak, what this connection is
for.

Pure: values and their octets. Later levels may add fields behind these, which are ignored here; everything else that is
not as it should be is a FrameError."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from leveret.cluster.links.frames import FrameError
from leveret.core.codec.names import NAME_OCTETS_MAX

MAGIC = b"LEVERETN"
HELLO_BYTES_MAX = 1024
CLUSTER_BYTES = 16
TEXT_BYTES_MAX = 600
# As the engine has it: the number of a node is the upper part of its replicas' ids.
NODE_MAX = (1 << 30) - 1
# What this version speaks on a link: the lowest and the highest level.
LEVELS = (1, 1)

# Magic, cluster, node, node that is wanted (0 for any), incarnation, epoch, lowest and highest level, purpose, length
# of the name.
_HELLO = struct.Struct("!8s16sQQQQHHBB")
# Magic, cluster, node, incarnation, level, length of the name.
_WELCOME = struct.Struct("!8s16sQQHB")


class Purpose(enum.IntEnum):
    CONSENSUS = 1
    TRAFFIC = 2
    # To learn which node is behind an address; ends with the answer.
    PROBE = 3


@dataclass(frozen=True, slots=True)
class Hello:
    cluster: bytes
    node: int
    wanted: int
    incarnation: int
    # Of this connection, within the incarnation: later ones are larger.
    epoch: int
    levels: tuple[int, int]
    purpose: Purpose
    name: str


@dataclass(frozen=True, slots=True)
class Welcome:
    cluster: bytes
    node: int
    incarnation: int
    level: int
    name: str


def pack_hello(hello: Hello) -> bytes:
    name = hello.name.encode()[:NAME_OCTETS_MAX]
    assert len(hello.cluster) == CLUSTER_BYTES and 0 < hello.node <= NODE_MAX, f"node {hello.node}"
    return (
        _HELLO.pack(
            MAGIC, hello.cluster, hello.node, hello.wanted, hello.incarnation, hello.epoch, *hello.levels,
            hello.purpose, len(name),
        )
        + name
    )  # fmt: skip


def unpack_hello(octets: bytes) -> Hello:
    if len(octets) < _HELLO.size or not octets.startswith(MAGIC):
        raise FrameError("the first frame is not the hello of a node")
    _, cluster, node, wanted, incarnation, epoch, low, high, purpose, length = _HELLO.unpack_from(octets)
    if not 0 < node <= NODE_MAX or wanted > NODE_MAX or not 0 < low <= high:
        raise FrameError(f"the hello of node {node} for node {wanted} with levels {low} to {high}")
    try:
        meant = Purpose(purpose)
    except ValueError:
        raise FrameError(f"the hello is for a connection of kind {purpose}, which does not exist") from None
    return Hello(cluster, node, wanted, incarnation, epoch, (low, high), meant, _name(octets, _HELLO.size, length))


def pack_welcome(welcome: Welcome) -> bytes:
    name = welcome.name.encode()[:NAME_OCTETS_MAX]
    head = _WELCOME.pack(MAGIC, welcome.cluster, welcome.node, welcome.incarnation, welcome.level, len(name))
    return head + name


def unpack_welcome(octets: bytes) -> Welcome:
    if len(octets) < _WELCOME.size or not octets.startswith(MAGIC):
        raise FrameError("the answer to the hello is not that of a node")
    _, cluster, node, incarnation, level, length = _WELCOME.unpack_from(octets)
    if not 0 < node <= NODE_MAX:
        raise FrameError(f"the answer to the hello names node {node}")
    return Welcome(cluster, node, incarnation, level, _name(octets, _WELCOME.size, length))


def _name(octets: bytes, start: int, length: int) -> str:
    if len(octets) < start + length:
        raise FrameError("a name that is longer than its frame")
    try:
        name = octets[start : start + length].decode()
    except UnicodeDecodeError:
        raise FrameError("a name that is not UTF-8") from None
    if not name.isprintable():
        raise FrameError("a name with characters that cannot be seen")
    return name


def pack_refusal(reason: int, text: str) -> bytes:
    return bytes((reason,)) + text.encode()[:TEXT_BYTES_MAX]


def unpack_refusal(octets: bytes) -> tuple[int, str]:
    if not octets or len(octets) > 1 + TEXT_BYTES_MAX:
        raise FrameError(f"a refusal of {len(octets)} octets")
    return octets[0], octets[1:].decode(errors="replace")
