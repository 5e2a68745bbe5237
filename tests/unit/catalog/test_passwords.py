"""Password hashes: the right password fits, others do not, and a hash is Argon2id with its own salt."""

from __future__ import annotations

import pytest

from leveret.catalog.passwords import (
    ALGORITHMS,
    ARGON2ID,
    PASSWORD_BYTES_MAX,
    RABBIT_SHA256,
    RABBIT_SHA512,
    SALT_BYTES,
    hash_known_password,
    hash_password,
    is_costly,
    kind_of,
    read_hash,
    shown_hash,
    verify_password,
)

SALT = bytes(16)


def test_the_right_password_fits_and_no_other() -> None:
    made = hash_password(b"secret", SALT)
    assert made.startswith("$argon2id$")
    assert verify_password(made, b"secret")
    assert not verify_password(made, b"Secret")
    assert not verify_password(made, b"")


@pytest.mark.parametrize("password", [b"", b"\x00", b"\xff\xfe not UTF-8", b"x" * PASSWORD_BYTES_MAX])
def test_a_password_is_any_octets(password: bytes) -> None:
    assert verify_password(hash_known_password(password, SALT), password)


def test_another_salt_gives_another_hash() -> None:
    assert hash_known_password(b"secret", SALT) != hash_known_password(b"secret", b"x" * 16)


@pytest.mark.parametrize("password_hash", ["", "plain text", "$argon2id$v=19$broken", "$2b$12$bcryptbcrypt"])
def test_what_is_no_hash_of_ours_fits_nothing(password_hash: str) -> None:
    assert not verify_password(password_hash, b"")


def test_a_password_everybody_knows_costs_less_than_a_secret() -> None:
    assert "m=19456,t=2" in hash_password(b"secret", SALT)
    assert "m=8,t=1" in hash_known_password(b"guest", SALT)


# ---- RabbitMQ's


# Of the password "test12": the example in RabbitMQ's documentation.
FROM_RABBITMQ = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def test_what_rabbitmq_made_is_taken_and_fits_its_password() -> None:
    taken = read_hash(FROM_RABBITMQ)
    assert kind_of(taken) == RABBIT_SHA256
    assert verify_password(taken, b"test12")
    assert not verify_password(taken, b"test13")
    assert shown_hash(taken) == (FROM_RABBITMQ, "rabbit_password_hashing_sha256")


@pytest.mark.parametrize("kind", list(ALGORITHMS))
def test_each_kind_is_made_checked_shown_and_read_again(kind: str) -> None:
    made = hash_password(b"secret", bytes(range(SALT_BYTES)), kind)
    assert kind_of(made) == kind
    assert verify_password(made, b"secret")
    assert not verify_password(made, b"")
    assert not verify_password(made, b"secret2")
    text, algorithm = shown_hash(made)
    assert algorithm == ALGORITHMS[kind]
    assert read_hash(text, algorithm) == made
    assert is_costly(made) is (kind == ARGON2ID)


def test_a_salt_makes_equal_passwords_differ() -> None:
    for kind in ALGORITHMS:
        assert hash_password(b"x", bytes(16), kind) != hash_password(b"x", b"\x01" * 16, kind)


def test_a_hash_of_nothing_lets_nobody_in() -> None:
    assert read_hash("") == ""
    assert not verify_password("", b"")
    assert kind_of("") is None
    assert shown_hash("") == ("", ALGORITHMS[RABBIT_SHA256])


@pytest.mark.parametrize(
    ("text", "algorithm", "reason"),
    [
        (FROM_RABBITMQ, "rabbit_password_hashing_md5", "MD5"),
        (FROM_RABBITMQ, "scrypt", "unknown hashing algorithm 'scrypt'"),
        (FROM_RABBITMQ, ALGORITHMS[RABBIT_SHA512], "base64"),
        (FROM_RABBITMQ[:-4], ALGORITHMS[RABBIT_SHA256], "base64"),
        ("not base64!", ALGORITHMS[RABBIT_SHA256], "base64"),
        ("ü", ALGORITHMS[RABBIT_SHA256], "base64"),
        ("$argon2id$nonsense", ALGORITHMS[ARGON2ID], "none of Argon2"),
        ("$argon2i$v=19$m=8,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA", ALGORITHMS[ARGON2ID], "none of Argon2id"),
        ("$argon2id$v=19$m=4194304,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA", ALGORITHMS[ARGON2ID], "memory"),
        ("$argon2id$v=19$m=8,t=99,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA", ALGORITHMS[ARGON2ID], "time"),
    ],
)
def test_a_hash_that_cannot_be_used_is_refused_with_a_reason(text: str, algorithm: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_hash(text, algorithm)


@pytest.mark.parametrize(
    "stored", ["$rabbit-sha256$", "$rabbit-sha256$AAAA", "$rabbit-md5$AAAA", "plain", "$argon2id$"]
)
def test_a_damaged_hash_fits_nothing(stored: str) -> None:
    assert not verify_password(stored, b"")
    assert not verify_password(stored, b"plain")


def test_a_password_that_is_too_long_fits_nothing() -> None:
    for kind in (RABBIT_SHA256, RABBIT_SHA512):
        long = b"x" * (PASSWORD_BYTES_MAX + 1)
        assert not verify_password(hash_password(long, bytes(16), kind), long)
