"""Consuming: consumers that last, how handlers are called, and what becomes of failures."""
