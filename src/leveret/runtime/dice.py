"""Randomness: names nobody can guess, and picks that need not be secret. Handed in, so that tests can load it."""

from __future__ import annotations

import base64
import random
import secrets
import uuid


class Dice:
    def name(self) -> str:
        """22 characters that identify something for good, as in server-named queues."""
        return base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")

    def uuid(self) -> str:
        """A random UUID (version 4), as people know them: 36 characters."""
        return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))

    def salt(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def number(self) -> int:
        """32 random bits."""
        return secrets.randbits(32)

    def pick(self, count: int) -> int:
        """A number below `count`, for spreading load; not for secrets."""
        return random.randrange(count)
