"""Why a connection between nodes is refused, what an operator does about it, and how often each happened.

The one table from which log lines, what the other side hears and the counters come. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Reason(enum.IntEnum):
    """Travels in a refusal: a number is never given another meaning."""

    MALFORMED = 1
    PLAIN_TEXT = 2
    TLS_VERSION = 3
    TLS_FAILED = 4
    CERTIFICATE_EXPIRED = 5
    CERTIFICATE_STRANGE = 6
    CERTIFICATE_MISSING = 7
    WRONG_USER = 8
    WRONG_CLUSTER = 9
    WRONG_NODE = 10
    UNKNOWN_NODE = 11
    LEVEL = 12
    STALE = 13
    DEADLINE = 14
    CROWDED = 15
    REFUSED = 16
    JOIN = 17


ADVICE: dict[Reason, str] = {
    Reason.MALFORMED: "something other than a node of Leveret connects here; find out what, or block it",
    Reason.PLAIN_TEXT: "the other side does not speak TLS; only nodes of the cluster connect to this port",
    Reason.TLS_VERSION: "links between nodes need TLS 1.3; update the other side, or whatever is in between",
    Reason.TLS_FAILED: "the TLS handshake did not succeed; the reason is that of OpenSSL",
    Reason.CERTIFICATE_EXPIRED: (
        "the certificate has expired or is not valid yet; compare the clocks of both machines, and renew it: "
        "`leveret cluster token` on the node with the cluster's authority, `leveret cluster join TOKEN` on the other"
    ),
    Reason.CERTIFICATE_STRANGE: (
        "the certificate is not from this cluster's authority; a node of another cluster has this address, or it was "
        "initialised by itself: join it with `leveret cluster join TOKEN`"
    ),
    Reason.CERTIFICATE_MISSING: (
        "the other side shows no certificate and no token is open; if it is to join, make one: `leveret cluster token`"
    ),
    Reason.WRONG_USER: "on a unix socket both nodes must run as the same user of the machine",
    Reason.WRONG_CLUSTER: "the node belongs to another cluster; correct the addresses in its configuration or in ours",
    Reason.WRONG_NODE: (
        "another node answers under this address, or a node claims to be one that its certificate does not name; "
        "correct the addresses, and never copy a data directory"
    ),
    Reason.UNKNOWN_NODE: "the node is not a member of this cluster, or was forgotten; join it again with a new token",
    Reason.LEVEL: "the versions are too far apart; update the older node first",
    Reason.STALE: (
        "a newer connection of the same node exists; if this goes on, two processes run with the same credentials"
    ),
    Reason.DEADLINE: "the handshake was not finished in time; look at the network and at the load of both machines",
    Reason.CROWDED: "too many connections are in their handshake; if this goes on, somebody floods this port",
    Reason.REFUSED: "the other node has refused the connection; the text is its own",
    Reason.JOIN: "a node could not join; make a new token with `leveret cluster token` if it should",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: Reason
    # What was found, for the log; and, if the other side is a node of ours, for it, too.
    text: str

    @property
    def advice(self) -> str:
        return ADVICE[self.reason]


class RefusalCounters:
    """How often each reason was met, for operators."""

    def __init__(self) -> None:
        self.totals: dict[Reason, int] = dict.fromkeys(Reason, 0)

    def count(self, reason: Reason) -> None:
        self.totals[reason] += 1

    @property
    def total(self) -> int:
        return sum(self.totals.values())
