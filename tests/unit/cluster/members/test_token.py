"""Tokens as lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.links.address import Address
from leveret.cluster.members.token import PREFIX, Token, parse_token, token_line
from leveret.errors import JoinRefused
from leveret.runtime.secret import Secret

TOKEN = Token(bytes(range(32)), bytes(8), Secret("ab" * 24), 1_800_000_000, Address("rabbit1", 25672))
addresses = st.sampled_from([Address("10.0.0.1", 1), Address("::1", 7), Address(path="/a/b")])


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=24, max_size=24), st.integers(0, 1 << 60), addresses)
def test_a_token_is_read_as_it_was_written(mark: bytes, secret: bytes, end: int, address: Address) -> None:
    token = Token(mark, b"identity", Secret(secret.hex()), end, address)
    line = token_line(token)
    assert parse_token(f"  {line}\n") == token
    assert line.isascii() and not any(character.isspace() for character in line)


@given(st.integers(0, 200), st.characters(codec="ascii"))
def test_a_line_that_was_not_copied_well_is_noticed(place: int, character: str) -> None:
    line = token_line(TOKEN)
    place = len(PREFIX) + place % (len(line) - len(PREFIX))
    for damaged in (line[:place], line[:place] + line[place + 1 :], line[:place] + character + line[place + 1 :]):
        if damaged.strip() != line:
            with pytest.raises(JoinRefused) as caught:
                parse_token(damaged)
            assert line[len(PREFIX) : len(PREFIX) + 20] not in str(caught.value)


@pytest.mark.parametrize("line", ["", "token", PREFIX, PREFIX + "AAAA", PREFIX + "A" * 2000, PREFIX + "ä"])
def test_what_is_no_token_is_refused(line: str) -> None:
    with pytest.raises(JoinRefused):
        parse_token(line)


def test_the_secret_is_not_shown() -> None:
    assert "abab" not in repr(TOKEN) and "abab" not in str(TOKEN)
