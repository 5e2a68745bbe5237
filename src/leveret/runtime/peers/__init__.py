"""Connections between nodes: dialling, unix sockets, and TLS in which both sides show certificates."""
