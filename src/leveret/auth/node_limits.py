"""What a node sets as limits for everything that its clients can make. 0 is no limit, but for
bodies and frames."""

from __future__ import annotations

import msgspec


class NodeLimits(msgspec.Struct, frozen=True):
    connections_max: int = 0
    channels_max: int = 0
    body_bytes_max: int = 16 * 1024 * 1024
    stream_frame_max: int = 4 * 1024 * 1024
    consumers_per_channel_max: int = 10_000
    consumers_per_connection_max: int = 20_000
    consumers_per_user_max: int = 100_000
    # Of the arguments of one thing, as catalog.argument_size counts them.
    arguments_bytes_max: int = 32 * 1024
    # Of all consumers of one user together.
    consumer_arguments_bytes_max: int = 16 * 1024 * 1024
    exchanges_per_vhost_max: int = 50_000
    queues_per_vhost_max: int = 200_000
    bindings_per_vhost_max: int = 1_000_000
    # Of all exchanges, queues and bindings of a virtual host together.
    arguments_per_vhost_bytes_max: int = 64 * 1024 * 1024
    policies_per_vhost_max: int = 1_000
    parameters_per_vhost_max: int = 1_000
    # Of one transaction: what its commit does in one step, as core.connection.transaction counts it.
    transaction_work_max: int = 32_768
    # Of bodies that have begun and are not complete, and of transactions that are not committed.
    unfinished_per_connection_bytes_max: int = 64 * 1024 * 1024
    unfinished_bytes_max: int = 512 * 1024 * 1024
