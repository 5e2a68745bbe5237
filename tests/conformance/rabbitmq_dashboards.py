"""What RabbitMQ's own Grafana dashboards ask Prometheus for: names of metrics, and the labels that they choose, group
or join by. Facts about their expressions, read in the dashboards; the expressions are not here."""

# How a panel joins a metric with the node it comes from. Every panel but the one for versions does.
IDENTITY_LABELS = ("rabbitmq_cluster", "rabbitmq_node", "rabbitmq_endpoint")

# "RabbitMQ-Overview", 10991 on grafana.com: gauges as they are, counters by their rates.
OVERVIEW: dict[str, tuple[str, ...]] = {
    "rabbitmq_build_info": ("erlang_version", "rabbitmq_version"),
    "rabbitmq_channels": (),
    "rabbitmq_channels_closed_total": (),
    "rabbitmq_channels_opened_total": (),
    "rabbitmq_connections": (),
    "rabbitmq_connections_closed_total": (),
    "rabbitmq_connections_opened_total": (),
    "rabbitmq_disk_space_available_bytes": (),
    "rabbitmq_erlang_uptime_seconds": (),
    "rabbitmq_global_consumers": (),
    "rabbitmq_global_messages_acknowledged_total": (),
    "rabbitmq_global_messages_confirmed_total": ("protocol",),
    "rabbitmq_global_messages_delivered_consume_auto_ack_total": ("protocol", "queue_type"),
    "rabbitmq_global_messages_delivered_consume_manual_ack_total": ("protocol", "queue_type"),
    "rabbitmq_global_messages_delivered_get_auto_ack_total": (),
    "rabbitmq_global_messages_delivered_get_manual_ack_total": (),
    "rabbitmq_global_messages_delivered_total": (),
    "rabbitmq_global_messages_get_empty_total": (),
    "rabbitmq_global_messages_received_confirm_total": ("protocol",),
    "rabbitmq_global_messages_received_total": (),
    "rabbitmq_global_messages_redelivered_total": (),
    "rabbitmq_global_messages_routed_total": (),
    "rabbitmq_global_messages_unroutable_dropped_total": (),
    "rabbitmq_global_messages_unroutable_returned_total": (),
    "rabbitmq_global_publishers": (),
    "rabbitmq_identity_info": IDENTITY_LABELS,
    "rabbitmq_message_size_bytes_bucket": ("le",),
    "rabbitmq_message_size_bytes_count": (),
    "rabbitmq_message_size_bytes_sum": (),
    "rabbitmq_process_resident_memory_bytes": (),
    "rabbitmq_queue_messages_ready": (),
    "rabbitmq_queue_messages_unacked": (),
    "rabbitmq_queues": (),
    "rabbitmq_queues_created_total": (),
    "rabbitmq_queues_declared_total": (),
    "rabbitmq_queues_deleted_total": (),
    "rabbitmq_resident_memory_limit_bytes": (),
}

# Of the versions for 3.13, and of those for 3.8, which knew no global counters.
OLDER_OVERVIEWS: dict[str, tuple[str, ...]] = {
    "rabbitmq_channel_consumers": (),
    "rabbitmq_channel_get_ack_total": (),
    "rabbitmq_channel_get_empty_total": (),
    "rabbitmq_channel_get_total": (),
    "rabbitmq_channel_messages_acked_total": (),
    "rabbitmq_channel_messages_confirmed_total": (),
    "rabbitmq_channel_messages_delivered_ack_total": (),
    "rabbitmq_channel_messages_delivered_total": (),
    "rabbitmq_channel_messages_published_total": (),
    "rabbitmq_channel_messages_redelivered_total": (),
    "rabbitmq_channel_messages_unroutable_dropped_total": (),
    "rabbitmq_channel_messages_unroutable_returned_total": (),
    "rabbitmq_process_max_fds": (),
    "rabbitmq_process_max_tcp_sockets": (),
    "rabbitmq_process_open_fds": (),
    "rabbitmq_process_open_tcp_sockets": (),
    "rabbitmq_queue_messages_published_total": (),
}

STREAM_ERRORS = (
    "access_refused",
    "authentication_failure",
    "frame_too_large",
    "internal_error",
    "precondition_failed",
    "publisher_does_not_exist",
    "sasl_authentication_failure_loopback",
    "sasl_challenge",
    "sasl_error",
    "sasl_mechanism_not_supported",
    "stream_already_exists",
    "stream_does_not_exist",
    "stream_not_available",
    "subscription_id_already_exists",
    "subscription_id_does_not_exist",
    "unknown_frame",
    "vhost_access_failure",
)

# "RabbitMQ-Stream", 14798: all of them with protocol="stream".
STREAM: dict[str, tuple[str, ...]] = {
    "rabbitmq_global_consumers": ("protocol",),
    "rabbitmq_global_messages_confirmed_total": ("protocol",),
    "rabbitmq_global_messages_delivered_total": ("protocol",),
    "rabbitmq_global_messages_received_total": ("protocol",),
    "rabbitmq_global_publishers": ("protocol",),
    "rabbitmq_identity_info": IDENTITY_LABELS,
    **{f"rabbitmq_global_stream_error_{error}_total": ("protocol",) for error in STREAM_ERRORS},
}

# The panel for sizes compares the text of `le`.
SIZE_BOUNDS = ("100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf")
