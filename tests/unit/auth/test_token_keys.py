"""Keys of tokens: fetched when they are needed and not more often, and kept whatever the provider answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from leveret.auth.token_keys import FETCH_EVERY_S, KEYS_MAX, STALE_S, TokenKeys, fits, read_jwks, read_pem
from leveret.runtime.https import FetchError
from tests.unit.auth.test_tokens import SetClock
from tests.unit.broker.signing import jwk, jwks, pem, private_key

ONE, TWO = private_key("rsa"), private_key("rsa", "other")
URL = "https://provider/keys"


class Provider:
    """Answers as it is told to, and counts who asks."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0
        self.hold: asyncio.Event | None = None

    async def fetch(self, url: str, ca: str, bytes_max: int, deadline_s: float) -> bytes:
        self.asked += 1
        assert (url, ca) == (URL, "ca.pem")
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: bytes = self.answer
        return answer


def with_keys(provider: Provider, scene: Callable[[TokenKeys, SetClock], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        clock = SetClock()
        keys = TokenKeys({}, URL, "ca.pem", clock, provider.fetch)
        await scene(keys, clock)
        keys.close()

    asyncio.run(run())


def test_keys_are_fetched_when_the_first_token_comes() -> None:
    provider = Provider(jwks(k1=ONE, k2=TWO))

    async def scene(keys: TokenKeys, clock: SetClock) -> None:
        assert provider.asked == 0
        assert await keys.find("k1") is not None
        assert await keys.find("k2") is not None
        assert provider.asked == 1

    with_keys(provider, scene)


def test_an_unknown_key_makes_the_broker_look_once_a_minute_at_most() -> None:
    provider = Provider(jwks(k1=ONE))

    async def scene(keys: TokenKeys, clock: SetClock) -> None:
        for number in range(1000):
            assert await keys.find(f"unknown{number}") is None
        assert provider.asked == 1
        provider.answer = jwks(k2=TWO)
        clock.monotonic_s += FETCH_EVERY_S
        assert await keys.find("k2") is not None
        assert await keys.find("k1") is None
        assert provider.asked == 2

    with_keys(provider, scene)


def test_many_who_wait_wait_for_one_fetch() -> None:
    provider = Provider(jwks(k1=ONE))

    async def scene(keys: TokenKeys, clock: SetClock) -> None:
        provider.hold = asyncio.Event()
        waiting = [asyncio.ensure_future(keys.find("k1")) for _ in range(50)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # One who gives up spoils nothing.
        waiting[0].cancel()
        provider.hold.set()
        found = await asyncio.gather(*waiting[1:])
        assert all(key is not None for key in found)
        assert provider.asked == 1

    with_keys(provider, scene)


@pytest.mark.parametrize(
    "answer",
    [
        FetchError("status 500"),
        b"",
        b"<html>502 Bad Gateway</html>",
        b"null",
        b"[]",
        b'{"error":"rate limited"}',
        b'{"keys":[]}',
        b'{"keys":{}}',
        b'{"keys":[{"kid":"k1","kty":"RSA"}]}',
        b'{"keys":[{"kid":"k1","kty":"oct","k":"c2VjcmV0"}]}',
        b"[" * 100_000,
    ],
    ids=lambda answer: str(answer)[:30],
)
def test_whatever_comes_instead_of_keys_the_last_good_ones_stay(answer: Any) -> None:
    provider = Provider(jwks(k1=ONE))

    async def scene(keys: TokenKeys, clock: SetClock) -> None:
        await keys.find("k1")
        provider.answer = answer
        clock.monotonic_s += FETCH_EVERY_S
        assert await keys.find("other") is None
        assert provider.asked == 2
        assert await keys.find("k1") is not None

    with_keys(provider, scene)


def test_keys_that_are_old_are_looked_for_again_without_anybody_waiting() -> None:
    provider = Provider(jwks(k1=ONE))

    async def scene(keys: TokenKeys, clock: SetClock) -> None:
        await keys.find("k1")
        clock.monotonic_s += STALE_S
        provider.answer = jwks(k2=TWO)
        provider.hold = asyncio.Event()
        assert await keys.find("k1") is not None
        provider.hold.set()
        await asyncio.sleep(0.01)
        # It was withdrawn.
        assert await keys.find("k1") is None

    with_keys(provider, scene)


def test_keys_of_files_stay_whatever_is_published() -> None:
    async def scene() -> None:
        provider = Provider(jwks(k1=TWO))
        keys = TokenKeys({"k1": pem(ONE)}, URL, "ca.pem", SetClock(), provider.fetch)
        key = await keys.find("k1")
        await asyncio.sleep(0.01)
        assert (await keys.find("k1")).public_numbers() == key.public_numbers() == ONE.public_key().public_numbers()

    asyncio.run(scene())


def test_keys_that_are_of_no_use_are_passed_over() -> None:
    listed: list[Any] = [
        jwk("good", ONE),
        {**jwk("encryption", ONE), "use": "enc"},
        jwk("weak", private_key("weak")),
        {"kid": "secret", "kty": "oct", "k": "c2VjcmV0"},
        {**jwk("private", ONE), "d": "AAAA"},
        {key: value for key, value in jwk("nameless", ONE).items() if key != "kid"},
        {**jwk("odd", ONE), "kid": 7},
        {**jwk("broken", ONE), "n": "!"},
        {"kid": "listed", "kty": ["RSA"]},
        "text",
        None,
    ]
    assert list(read_jwks(json.dumps({"keys": listed}).encode())) == ["good"]


def test_the_number_of_keys_is_bounded() -> None:
    one = jwk("k", private_key("ec"))
    listed = [{**one, "kid": str(number)} for number in range(KEYS_MAX * 3)]
    assert len(read_jwks(json.dumps({"keys": listed}).encode())) == KEYS_MAX


@pytest.mark.parametrize(
    ("kind", "algorithms"),
    [("rsa", {"RS256", "RS512", "PS256"}), ("ec", {"ES256"}), ("ec384", {"ES384"}), ("ed", {"EdDSA"})],
)
def test_which_signatures_can_be_a_keys(kind: str, algorithms: set[str]) -> None:
    key = read_pem(pem(private_key(kind)))
    every = ("RS256", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA", "HS256", "none")
    assert {algorithm for algorithm in every if fits(key, algorithm)} == algorithms
