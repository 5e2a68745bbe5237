"""Whether two nodes belong together: a hello against what TLS or the kernel has proved, and the answer to it.

Pure. A node is who its certificate says, and the hello must say the same; on a unix socket the kernel has proved that
both sides run as the same user, and the hello is believed. Called by the connections in their handshake."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from leveret.cluster.links.hello import LEVELS, Hello, Purpose, Welcome
from leveret.cluster.links.refusals import Reason, Refusal

_SCHEME = "leveret://"


@dataclass(frozen=True, slots=True)
class Identity:
    """Of a node in its present life."""

    cluster: bytes
    node: int
    incarnation: int
    name: str
    levels: tuple[int, int] = LEVELS


@dataclass(frozen=True, slots=True)
class Proven:
    """What is known of the other side before it says a word. Empty on a unix socket, where the user is proved."""

    cluster: bytes = b""
    node: int = 0

    def fits(self, cluster: bytes, node: int) -> bool:
        return not self.node or (self.cluster == cluster and self.node == node)


SAME_USER = Proven()


def node_uri(cluster: bytes, node: int) -> str:
    """What a node's certificate names it by."""
    return f"{_SCHEME}{cluster.hex()}/{node}"


def proven_by(uri: str) -> Proven:
    """The reverse; raises ValueError if it names no node."""
    cluster, slash, node = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not slash or not (node.isascii() and node.isdigit()) or len(node) > 10:
        raise ValueError(f"the certificate is for {uri[:100]!r}, which is not a node")
    return Proven(bytes.fromhex(cluster), int(node))


def say_hello(ours: Identity, wanted: int, epoch: int, purpose: Purpose) -> Hello:
    return Hello(ours.cluster, ours.node, wanted, ours.incarnation, epoch, ours.levels, purpose, ours.name)


def judge_hello(
    ours: Identity,
    hello: Hello,
    proven: Proven,
    members: Container[int],
    newest: Callable[[int, Purpose], tuple[int, int]],
) -> Welcome | Refusal:
    """The answer of the accepting side. `newest` gives incarnation and epoch of the last connection of a node that was
    taken for a purpose."""
    if hello.cluster != ours.cluster:
        return Refusal(
            Reason.WRONG_CLUSTER,
            f"node {hello.node} ({hello.name}) is of cluster {hello.cluster.hex()}, this is {ours.cluster.hex()}",
        )
    if not proven.fits(hello.cluster, hello.node):
        return Refusal(Reason.WRONG_NODE, f"node {hello.node} has shown the certificate of node {proven.node}")
    if hello.wanted not in (0, ours.node):
        return Refusal(Reason.WRONG_NODE, f"node {hello.wanted} was wanted, this is node {ours.node} ({ours.name})")
    if hello.purpose is not Purpose.PROBE:
        if hello.node == ours.node:
            return Refusal(Reason.WRONG_NODE, f"this node is {ours.node} itself")
        if hello.node not in members:
            return Refusal(Reason.UNKNOWN_NODE, f"node {hello.node} ({hello.name}) is not a member")
        if (hello.incarnation, hello.epoch) <= newest(hello.node, hello.purpose):
            return Refusal(
                Reason.STALE, f"a connection of node {hello.node} that is newer than {hello.incarnation}/{hello.epoch}"
            )
    level = _common_level(ours.levels, hello.levels)
    if not level:
        return Refusal(Reason.LEVEL, _levels_text(ours.levels, hello.levels))
    return Welcome(ours.cluster, ours.node, ours.incarnation, level, ours.name)


def judge_welcome(ours: Identity, welcome: Welcome, proven: Proven, wanted: int) -> Refusal | None:
    """The dialling side: None if this is the node that was wanted."""
    if welcome.cluster != ours.cluster:
        return Refusal(Reason.WRONG_CLUSTER, f"node {welcome.node} is of cluster {welcome.cluster.hex()}")
    if not proven.fits(welcome.cluster, welcome.node):
        return Refusal(Reason.WRONG_NODE, f"node {welcome.node} has shown the certificate of node {proven.node}")
    if wanted not in (0, welcome.node):
        return Refusal(Reason.WRONG_NODE, f"node {welcome.node} ({welcome.name}) answers instead of node {wanted}")
    low, high = ours.levels
    if not low <= welcome.level <= high:
        return Refusal(Reason.LEVEL, f"node {welcome.node} has chosen level {welcome.level} of {low} to {high}")
    return None


def _common_level(ours: tuple[int, int], theirs: tuple[int, int]) -> int:
    """The highest that both speak; 0 if there is none."""
    level = min(ours[1], theirs[1])
    return level if level >= max(ours[0], theirs[0]) else 0


def _levels_text(ours: tuple[int, int], theirs: tuple[int, int]) -> str:
    return f"levels {theirs[0]} to {theirs[1]} there, {ours[0]} to {ours[1]} here"
