"""What exists: vhosts, users, permissions, exchanges, queues and bindings, as records changed only by commands."""
