"""One connection of the stream protocol: its handshake, its commands, its subscriptions."""
