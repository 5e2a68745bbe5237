"""Entries of consensus groups in the log of the node."""
