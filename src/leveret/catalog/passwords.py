"""Password hashes: Argon2id, made with the salt the caller brings and checked in constant time by the library.

Never keeps a password. Hashing takes milliseconds by design, so callers run it off the event loop and remember
successes (broker/login.py)."""

from __future__ import annotations

from argon2 import low_level
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import Type

# RFC 9106's second recommended choice scaled to a broker that many workers log in to at once.
TIME_COST = 2
MEMORY_KIB = 19456
PARALLELISM = 1
HASH_BYTES = 32
SALT_BYTES = 16


def hash_password(password: bytes, salt: bytes) -> str:
    return low_level.hash_secret(password, salt, TIME_COST, MEMORY_KIB, PARALLELISM, HASH_BYTES, Type.ID).decode()


def hash_known_password(password: bytes, salt: bytes) -> str:
    """For a password that everybody knows, such as guest's: there is nothing to guard, so it costs nothing."""
    return low_level.hash_secret(password, salt, 1, 8, PARALLELISM, HASH_BYTES, Type.ID).decode()


def verify_password(password_hash: str, password: bytes) -> bool:
    try:
        return low_level.verify_secret(password_hash.encode(), password, Type.ID)
    except (VerificationError, InvalidHashError):
        return False
