"""What a node sets for all its connections."""

from __future__ import annotations

import msgspec

from leveret.wire import limits


class SessionSettings(msgspec.Struct, frozen=True):
    frame_max: int = limits.FRAME_MAX
    channel_max: int = limits.CHANNEL_MAX
    heartbeat_s: int = limits.HEARTBEAT_S
    body_bytes_max: int = limits.BODY_BYTES_MAX
    handshake_deadline_s: float = limits.HANDSHAKE_DEADLINE_S
    # Milliseconds until an unacked delivery is late, 0 for never, and what happens then: "requeue" or "close".
    ack_timeout_ms: int = 0
    ack_timeout_action: str = "requeue"
    # The largest frame of the stream protocol.
    stream_frame_max: int = limits.STREAM_FRAME_MAX
    cluster_name: str = "leveret"
