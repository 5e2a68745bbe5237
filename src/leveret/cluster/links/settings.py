"""The times and bounds of links between nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkSettings:
    # How often the side that dialled sends a heartbeat, which the other returns.
    heartbeat_s: float = 1.0
    # A connection on which nothing has come for so long is closed.
    idle_s: float = 5.0
    # From the first octet to the end of the handshake, TLS included.
    handshake_s: float = 5.0
    dial_s: float = 5.0
    redial_min_s: float = 0.05
    redial_max_s: float = 5.0
    # What may wait to be sent on a connection. More for consensus closes it, because the engine sends again; traffic
    # has to wait.
    consensus_bytes_max: int = 64 << 20
    traffic_bytes_max: int = 8 << 20
    # Connections in their handshake.
    strangers_max: int = 64
    # Questions of one node that are open here.
    questions_max: int = 1024
