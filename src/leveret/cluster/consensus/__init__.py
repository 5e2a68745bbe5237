"""Agreement between replicas: the engine's interface, the log of entries, and the driver that brings them together."""
