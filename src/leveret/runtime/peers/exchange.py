"""One question and one answer over TLS, for commands: blocks until the other side has closed."""

from __future__ import annotations

import socket
import ssl
import time

_CHUNK_BYTES = 1 << 16


def exchange(
    host: str, port: int, context: ssl.SSLContext, octets: bytes, answer_bytes_max: int, deadline_s: float
) -> bytes:
    """Everything that came before the other side closed. Raises OSError: TimeoutError at the deadline, ssl.SSLError if
    the context does not trust the other side, and then nothing was sent."""
    until = time.monotonic() + deadline_s
    answer = bytearray()
    with socket.create_connection((host, port), timeout=deadline_s) as plain:
        plain.settimeout(_left(until))
        with context.wrap_socket(plain) as sock:
            sock.sendall(octets)
            while True:
                sock.settimeout(_left(until))
                chunk = sock.recv(_CHUNK_BYTES)
                if not chunk:
                    return bytes(answer)
                answer += chunk
                if len(answer) > answer_bytes_max:
                    raise OSError(f"the answer is longer than {answer_bytes_max} octets")


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left
