"""One connection's data plane: frames in, publishes routed, deliveries out, acks settled."""
