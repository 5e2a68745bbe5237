"""Password hashes: made with the salt the caller brings, checked in constant time, and told apart by how they begin.

    $argon2id$...           ours
    $rabbit-sha256$<base64> what RabbitMQ keeps: four octets of salt and the hash of salt and password
    $rabbit-sha512$<base64>

Never keeps a password. Argon2 takes milliseconds by design, so callers run it off the event loop and remember
successes (auth/login.py)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from argon2 import extract_parameters, low_level
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import Type

# RFC 9106's second recommended choice scaled to a broker that many workers log in to at once.
TIME_COST = 2
MEMORY_KIB = 19456
PARALLELISM = 1
HASH_BYTES = 32
SALT_BYTES = 16
# A longer one is refused before anything is made of it.
PASSWORD_BYTES_MAX = 1024
# What a hash from elsewhere may cost us at each login.
MEMORY_KIB_MAX = 256 * 1024
TIME_COST_MAX = 16
PARALLELISM_MAX = 8

ARGON2ID, RABBIT_SHA256, RABBIT_SHA512 = "argon2id", "rabbit_sha256", "rabbit_sha512"
# What the HTTP API and definitions call each kind.
ALGORITHMS = {
    ARGON2ID: "leveret_password_hashing_argon2id",
    RABBIT_SHA256: "rabbit_password_hashing_sha256",
    RABBIT_SHA512: "rabbit_password_hashing_sha512",
}
_MD5 = "rabbit_password_hashing_md5"
_RABBIT_SALT_BYTES = 4
_PREFIXES = {RABBIT_SHA256: "$rabbit-sha256$", RABBIT_SHA512: "$rabbit-sha512$"}
_DIGESTS = {RABBIT_SHA256: hashlib.sha256, RABBIT_SHA512: hashlib.sha512}


def hash_password(password: bytes, salt: bytes, kind: str = ARGON2ID) -> str:
    """Of a salt of SALT_BYTES octets each kind takes what it needs."""
    if kind == ARGON2ID:
        return _argon2(password, salt, TIME_COST, MEMORY_KIB)
    salt = salt[:_RABBIT_SALT_BYTES]
    return _PREFIXES[kind] + base64.b64encode(salt + _DIGESTS[kind](salt + password).digest()).decode()


def hash_known_password(password: bytes, salt: bytes) -> str:
    """For a password that everybody knows, such as guest's: there is nothing to guard, so it costs nothing."""
    return _argon2(password, salt, 1, 8)


def _argon2(password: bytes, salt: bytes, time_cost: int, memory_kib: int) -> str:
    return low_level.hash_secret(password, salt, time_cost, memory_kib, PARALLELISM, HASH_BYTES, Type.ID).decode()


def verify_password(password_hash: str, password: bytes) -> bool:
    kind = kind_of(password_hash)
    if kind is None or len(password) > PASSWORD_BYTES_MAX:
        return False
    if kind == ARGON2ID:
        try:
            return low_level.verify_secret(password_hash.encode(), password, Type.ID)
        except (VerificationError, InvalidHashError):
            return False
    octets = _decoded(password_hash[len(_PREFIXES[kind]) :], kind)
    if octets is None:
        return False
    salt, digest = octets[:_RABBIT_SALT_BYTES], octets[_RABBIT_SALT_BYTES:]
    return hmac.compare_digest(digest, _DIGESTS[kind](salt + password).digest())


def kind_of(password_hash: str) -> str | None:
    """None for one that fits no password, such as the empty one."""
    for kind, prefix in _PREFIXES.items():
        if password_hash.startswith(prefix):
            return kind
    return ARGON2ID if password_hash.startswith("$argon2id$") else None


def is_costly(password_hash: str) -> bool:
    """Whether a wrong password takes as long here as one of somebody who does not exist."""
    return f"$m={MEMORY_KIB},t={TIME_COST},p={PARALLELISM}$" in password_hash


# ---- as the HTTP API and definitions have them


def read_hash(password_hash: str, algorithm: str = ALGORITHMS[RABBIT_SHA256]) -> str:
    """From what others write to what the catalog keeps; an empty one is kept, and lets nobody in. Raises ValueError
    with what is wrong."""
    if password_hash == "":
        return ""
    if algorithm == _MD5:
        raise ValueError("MD5 hashes protect no password; set a new one, or hash it with SHA-256")
    kind = next((kind for kind, name in ALGORITHMS.items() if name == algorithm), None)
    if kind is None:
        raise ValueError(f"unknown hashing algorithm '{algorithm}'; known are {', '.join(ALGORITHMS.values())}")
    if kind == ARGON2ID:
        _check_argon2(password_hash)
        return password_hash
    if _decoded(password_hash, kind) is None:
        raise ValueError(f"the password hash is no base64 of salt and hash as {algorithm} makes them")
    return _PREFIXES[kind] + password_hash


def shown_hash(password_hash: str) -> tuple[str, str]:
    """The hash and its algorithm as others read them."""
    kind = kind_of(password_hash)
    if kind is None:
        return "", ALGORITHMS[RABBIT_SHA256]
    return password_hash.removeprefix(_PREFIXES.get(kind, "")), ALGORITHMS[kind]


def _decoded(text: str, kind: str) -> bytes | None:
    try:
        octets = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return octets if len(octets) == _RABBIT_SALT_BYTES + _DIGESTS[kind]().digest_size else None


def _check_argon2(password_hash: str) -> None:
    try:
        parameters = extract_parameters(password_hash)
    except InvalidHashError:
        raise ValueError("the password hash is none of Argon2") from None
    if (
        parameters.type is not Type.ID
        or parameters.memory_cost > MEMORY_KIB_MAX
        or parameters.time_cost > TIME_COST_MAX
        or parameters.parallelism > PARALLELISM_MAX
    ):
        raise ValueError("the password hash is none of Argon2id, or takes more memory or time than a login may")
