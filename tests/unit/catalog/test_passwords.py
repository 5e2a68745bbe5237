"""Password hashes: the right password fits, others do not, and a hash is Argon2id with its own salt."""

from __future__ import annotations

import pytest

from leveret.catalog.passwords import hash_known_password, hash_password, verify_password

SALT = bytes(16)


def test_the_right_password_fits_and_no_other() -> None:
    made = hash_password(b"secret", SALT)
    assert made.startswith("$argon2id$")
    assert verify_password(made, b"secret")
    assert not verify_password(made, b"Secret")
    assert not verify_password(made, b"")


@pytest.mark.parametrize("password", [b"", b"\x00", b"\xff\xfe not UTF-8", b"x" * 4000])
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
