"""What a node sets for all its connections."""

from __future__ import annotations

import msgspec

from leveret.runtime.certificate import LoginName
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
    # Where stream clients are told to connect to, without and with TLS; an empty host or a port of 0 stands for that to
    # which the client came.
    stream_advertised: tuple[str, int] = ("", 0)
    stream_tls_advertised: tuple[str, int] = ("", 0)
    # How clients may log in, in the order of the offer; and what of a certificate is the user's name with EXTERNAL.
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    external_name: LoginName = "cn"
    cluster_name: str = "leveret"
