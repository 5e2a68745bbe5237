"""Tokens: which are believed, which are not, and what is remembered of them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from typing import Any

import jwt
import pytest

from leveret.auth import tokens as tokens_module
from leveret.auth.tokens import TOKEN_BYTES_MAX, Tokens, TokenSettings, is_token
from leveret.errors import LoginRefused
from leveret.runtime.clock import Clock
from tests.unit.broker.signing import AUDIENCE, claims, encoded, jwks, pem, private_key, sign

NOW = 1_800_000_000.0
RSA = private_key("rsa")


class SetClock(Clock):
    """Stands where it is put."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_s = NOW
        self.monotonic_s = 1000.0

    def wall(self) -> float:
        return self.wall_s

    def monotonic(self) -> float:
        return self.monotonic_s


async def at_once(host: str, work: Any, *given: object) -> Any:
    return work(*given)


async def no_fetch(*_: object) -> bytes:
    raise AssertionError("nothing is to be fetched")


class Fixture:
    def __init__(self, fetch: Any = no_fetch, **settings: Any) -> None:
        self.clock = SetClock()
        chosen = {"audience": AUDIENCE, "keys": {"k1": pem(RSA)}, **settings}
        self.tokens = Tokens(TokenSettings(**chosen), self.clock, b"key", at_once, fetch)

    def verify(self, token: str | bytes) -> Any:
        octets = token.encode() if isinstance(token, str) else token
        return asyncio.run(self.tokens.verify(octets))

    def refusal(self, token: str | bytes) -> str:
        with pytest.raises(LoginRefused) as refusal:
            self.verify(token)
        return refusal.value.reason


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def said(*scopes: str, **more: Any) -> dict[str, Any]:
    return claims(*scopes, now=NOW, **more)


def test_a_good_token_says_who_it_is_and_what_is_allowed(fixture: Fixture) -> None:
    bearer = fixture.verify(sign(said("read:*/*", "tag:monitoring"), RSA))
    assert (bearer.name, bearer.tags, bearer.expires_at) == ("ann", ("monitoring",), NOW + 305)
    assert bearer.allows("read", "/", "q") and not bearer.allows("write", "/", "q")
    assert bearer.may_enter("/") and bearer.exists


def test_scopes_may_be_a_list(fixture: Fixture) -> None:
    listed = ["rabbitmq.write:%2F/x", 7, "openid"]
    assert fixture.verify(sign(said(scope=listed), RSA)).allows("write", "/", "x")


@pytest.mark.parametrize("scope", [None, 7, {"a": 1}, "", []])
def test_without_scopes_nothing_is_allowed(fixture: Fixture, scope: Any) -> None:
    bearer = fixture.verify(sign(said(scope=scope), RSA))
    assert not bearer.may_enter("/") and bearer.tags == ()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"exp": NOW - 6}, "the token has expired"),
        ({"exp": None}, "the token has no end"),
        ({"exp": "tomorrow"}, "the token's exp is no time"),
        ({"exp": True}, "the token's exp is no time"),
        ({"exp": float("inf")}, "the token's exp is no time"),
        ({"nbf": NOW + 60}, "the token is not valid yet"),
        ({"iat": NOW + 60}, "the token is not valid yet"),
        ({"aud": "other"}, "the token is not meant for this broker"),
        ({"aud": None}, "the token is not meant for this broker"),
        ({"aud": ["other", 7]}, "the token is not meant for this broker"),
        ({"aud": {AUDIENCE: 1}}, "the token is not meant for this broker"),
        ({"sub": None}, "the token does not name its bearer"),
        ({"sub": 7}, "the token does not name its bearer"),
        ({"sub": "x" * 256}, "the token's name for its bearer is too long, or no plain text"),
        ({"sub": "ann\nINFO all is well"}, "the token's name for its bearer is too long, or no plain text"),
    ],
)
def test_claims_that_do_not_hold_are_refused(fixture: Fixture, more: dict[str, Any], reason: str) -> None:
    assert fixture.refusal(sign(said("read:*/*", **more), RSA)) == reason


def test_a_clock_may_be_wrong_by_the_leeway(fixture: Fixture) -> None:
    fixture.verify(sign(said(exp=NOW - 4, nbf=NOW + 4, iat=NOW + 4), RSA))


def test_the_issuer_must_be_the_one_that_is_set() -> None:
    fixture = Fixture(issuer="https://here")
    fixture.verify(sign(said(iss="https://here"), RSA))
    for issuer in ("https://there", None, ["https://here"]):
        said_so = said(iss=issuer)
        token = jwt.encode(said_so, RSA, "RS256", {"kid": "k1"}) if not isinstance(issuer, list) else None
        if token is not None:
            assert fixture.refusal(token) == "the token is from another issuer"


def test_the_first_name_that_a_token_has_counts() -> None:
    fixture = Fixture(name_claims=("user_name", "client_id"))
    assert fixture.verify(sign(said(client_id="b"), RSA)).name == "b"
    assert fixture.verify(sign(said(user_name="a", client_id="b"), RSA)).name == "a"


# ---- signatures


def test_a_token_that_was_changed_is_refused(fixture: Fixture) -> None:
    head, payload, signature = sign(said("read:*/*"), RSA).split(".")
    forged = encoded(said("write:*/*", "tag:administrator"))
    assert fixture.refusal(f"{head}.{forged}.{signature}") == "the token's signature is not good"
    assert fixture.refusal(f"{head}.{payload}.{signature[:-4]}AAAA") == "the token's signature is not good"


def test_a_token_of_another_key_is_refused(fixture: Fixture) -> None:
    other = private_key("rsa", "other")
    assert fixture.refusal(sign(said(), other)) == "the token's signature is not good"
    assert fixture.refusal(sign(said(), RSA, kid="k2")) == "the token is signed with a key that is not known"


def test_no_signature_is_none(fixture: Fixture) -> None:
    for algorithm in ("none", "None", "NONE", ""):
        token = f"{encoded({'alg': algorithm, 'kid': 'k1'})}.{encoded(said())}."
        assert fixture.refusal(token) == "it is no token"
        assert fixture.refusal(token + "AAAA") == "the token's algorithm is not allowed"


def test_the_public_key_is_no_shared_secret() -> None:
    """The old trick: a token signed by HMAC with the key that everybody knows."""
    for algorithms in (("RS256",), ("RS256", "HS256")):
        fixture = Fixture(algorithms=algorithms)
        signed = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': 'k1'})}.{encoded(said('tag:administrator'))}"
        mac = hmac.new(pem(RSA).encode(), signed.encode(), hashlib.sha256).digest()
        assert fixture.refusal(f"{signed}.{encoded(mac)}") == "the token's algorithm is not allowed"


def test_only_algorithms_that_are_set_are_taken() -> None:
    assert Fixture(algorithms=("ES256",)).refusal(sign(said(), RSA)) == "the token's algorithm is not allowed"
    assert Fixture(algorithms=("PS256",)).verify(sign(said(), RSA, "PS256")).name == "ann"


@pytest.mark.parametrize(("kind", "algorithm"), [("ec", "ES256"), ("ec384", "ES384"), ("ed", "EdDSA")])
def test_other_kinds_of_keys(kind: str, algorithm: str) -> None:
    key = private_key(kind)
    fixture = Fixture(keys={"k1": pem(key)}, algorithms=(algorithm, "RS256", "ES256"))
    assert fixture.verify(sign(said(), key, algorithm)).name == "ann"
    # An algorithm that is not the key's.
    wrong = "RS256" if kind != "ed" else "ES256"
    token = sign(said(), RSA if wrong == "RS256" else private_key("ec"), wrong)
    assert fixture.refusal(token) == "the token is signed with a key that is not known"


def test_an_extension_that_must_be_understood_is_refused(fixture: Fixture) -> None:
    head, payload, signature = sign(said(), RSA, crit=["exp"]).split(".")
    # The library looks at some of them itself.
    known = ("the token asks for an extension that is not known", "the token's head cannot be read")
    assert fixture.refusal(f"{head}.{payload}.{signature}") in known
    head = encoded({"alg": "RS256", "kid": "k1", "b64": False})
    assert fixture.refusal(f"{head}.{payload}.{signature}") in known


def test_without_a_key_id_the_only_key_is_meant() -> None:
    token = sign(said(), RSA, kid=None)
    assert Fixture().verify(token).name == "ann"
    two = {"k1": pem(RSA), "k2": pem(private_key("rsa", "other"))}
    assert Fixture(keys=two).refusal(token) == "the token is signed with a key that is not known"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"password",
        b"a.b.c",
        b"eyJ.x",
        b"eyJ.x.y.z",
        b"eyJhbGciOiJSUzI1NiJ9.e30.\xff",
        b"eyJ9.eyJ9.eyJ9",
        b"eyJ" + b"A" * TOKEN_BYTES_MAX + b".e30.AA",
        b"eyJ" + b"\n.e30.AA",
    ],
)
def test_what_is_no_token_is_refused(fixture: Fixture, token: bytes) -> None:
    fixture.refusal(token)


def test_only_what_looks_like_a_token_is_one() -> None:
    assert is_token(sign(said(), RSA).encode())
    assert not is_token(b"secret") and not is_token(b"eyJhbGciOiJub25lIn0.e30.")


@pytest.mark.parametrize("text", ["", "no PEM", pem(private_key("weak"))])
def test_a_key_that_is_of_no_use_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"public key|bits"):
        Fixture(keys={"k1": text})


# ---- what is remembered


def test_a_good_token_is_recalled_until_it_ends(fixture: Fixture) -> None:
    token = sign(said("read:*/*"), RSA).encode()
    assert fixture.tokens.recall(token) is None
    bearer = fixture.verify(token)
    assert fixture.tokens.recall(token) is bearer
    fixture.clock.wall_s = NOW + 304
    assert fixture.tokens.recall(token) is bearer
    fixture.clock.wall_s = NOW + 305
    assert fixture.tokens.recall(token) is None
    assert fixture.refusal(token) == "the token has expired"


def test_a_bad_token_is_not_remembered(fixture: Fixture) -> None:
    token = sign(said(aud="other"), RSA).encode()
    fixture.refusal(token)
    assert fixture.tokens.recall(token) is None


def test_what_is_remembered_is_bounded_and_is_no_token(monkeypatch: pytest.MonkeyPatch, fixture: Fixture) -> None:
    monkeypatch.setattr(tokens_module, "REMEMBERED_MAX", 3)
    for number in range(7):
        token = sign(said(jti=str(number)), RSA).encode()
        fixture.verify(token)
        assert len(fixture.tokens._known) <= 3
    assert token not in repr(vars(fixture.tokens)).encode()


def test_new_keys_void_what_was_remembered() -> None:
    answers = [jwks(k1=RSA), jwks(k2=private_key("rsa", "other"))]

    async def fetch(*_: object) -> bytes:
        return answers.pop(0)

    async def scene() -> None:
        fixture = Fixture(fetch, keys={}, jwks_url="https://provider/keys")
        token = sign(said(), RSA).encode()
        await fixture.tokens.verify(token)
        assert fixture.tokens.recall(token) is not None
        fixture.clock.monotonic_s += 61
        # A token of the new key makes the broker look, and the old one is gone.
        await fixture.tokens.verify(sign(said(), private_key("rsa", "other"), kid="k2").encode())
        assert fixture.tokens.recall(token) is None
        with pytest.raises(LoginRefused):
            await fixture.tokens.verify(token)

    asyncio.run(scene())
