"""Streams in the data plane: their logs, readers and consumers of both protocols. Compiled like the rest of core."""
