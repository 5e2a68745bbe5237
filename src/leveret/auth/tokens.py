"""Tokens in the place of passwords: JSON Web Tokens that a provider has signed, with scopes that say what is allowed.

A token is believed if its signature is one of the algorithms that are allowed, by a key that is known for its id, if it
is meant for this broker and if it is valid now. What it says is all there is: no user of that name need exist. Tokens
that were good are remembered as keyed digests until they end."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from leveret.auth.identity import TokenBearer
from leveret.auth.scopes import read_scopes
from leveret.auth.token_keys import Fetch, TokenKeys, fits
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.errors import LoginRefused
from leveret.runtime.clock import Clock
from leveret.runtime.https import fetch as fetch_over_tls

# Signatures by a private key, of which we have the public one. A shared secret would let us make tokens ourselves, and
# an attacker who can choose the algorithm takes our public key for one.
ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
TOKEN_BYTES_MAX = 16 * 1024
REMEMBERED_MAX = 10000
_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class TokenSettings(msgspec.Struct, frozen=True):
    # What a token's iss must be, empty for any; and what its aud must have.
    issuer: str = ""
    audience: str = ""
    # PEM texts by key id.
    keys: dict[str, str] = {}
    jwks_url: str = ""
    jwks_ca: str = ""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    scope_prefix: str = "rabbitmq."
    name_claims: tuple[str, ...] = ("preferred_username", "sub")
    leeway_s: float = 5.0


OffLoop = Callable[..., Awaitable[Any]]


class Tokens:
    def __init__(
        self, settings: TokenSettings, clock: Clock, secret: bytes, off_loop: OffLoop, fetch: Fetch = fetch_over_tls
    ) -> None:
        """Raises ValueError for a key that cannot be used."""
        self._settings = settings
        self._clock = clock
        self._secret = secret
        self._off_loop = off_loop
        self._keys = TokenKeys(settings.keys, settings.jwks_url, settings.jwks_ca, clock, fetch)
        self._keys.on_changed = self._forget
        # By digest.
        self._known: dict[bytes, TokenBearer] = {}

    def recall(self, token: bytes) -> TokenBearer | None:
        """Whose it is, if it was believed before and has not ended."""
        bearer = self._known.get(self._digest(token))
        if bearer is None or bearer.expires_at is None or bearer.expires_at <= self._clock.wall():
            return None
        return bearer

    async def verify(self, token: bytes, host: str = "") -> TokenBearer:
        """Who came with it from this address. Raises LoginRefused, with a reason that quotes nothing secret."""
        if not is_token(token):
            raise LoginRefused("it is no token")
        algorithm, kid = self._read_head(token)
        key = await self._keys.find(kid)
        if key is None or not fits(key, algorithm):
            raise LoginRefused("the token is signed with a key that is not known")
        claims = await self._off_loop(host, signed_claims, token, key, algorithm)
        bearer = self._bearer(claims)
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[self._digest(token)] = bearer
        return bearer

    def _read_head(self, token: bytes) -> tuple[str, str | None]:
        import jwt

        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise LoginRefused("the token's head cannot be read") from None
        algorithm, kid = head.get("alg"), head.get("kid")
        if algorithm not in self._settings.algorithms or algorithm not in ASYMMETRIC:
            raise LoginRefused("the token's algorithm is not allowed")
        if "crit" in head or "b64" in head:
            raise LoginRefused("the token asks for an extension that is not known")
        if kid is not None and not isinstance(kid, str):
            raise LoginRefused("the token's key id is no text")
        return algorithm, kid

    def _bearer(self, claims: dict[str, Any]) -> TokenBearer:
        settings, now = self._settings, self._clock.wall()
        ends = _moment(claims, "exp")
        if ends is None:
            raise LoginRefused("the token has no end")
        ends += settings.leeway_s
        if ends <= now:
            raise LoginRefused("the token has expired")
        for claim in ("nbf", "iat"):
            begins = _moment(claims, claim)
            if begins is not None and begins - settings.leeway_s > now:
                raise LoginRefused("the token is not valid yet")
        if settings.issuer and claims.get("iss") != settings.issuer:
            raise LoginRefused("the token is from another issuer")
        if settings.audience and settings.audience not in _texts(claims.get("aud")):
            raise LoginRefused("the token is not meant for this broker")
        scope = claims.get("scope", "")
        granted = scope.split() if isinstance(scope, str) else _texts(scope)
        return TokenBearer(self._name(claims), read_scopes(granted, settings.scope_prefix), ends)

    def _name(self, claims: dict[str, Any]) -> str:
        for claim in self._settings.name_claims:
            name = claims.get(claim)
            if isinstance(name, str) and name:
                octets = name.encode("utf-8", "surrogatepass")
                if len(octets) > NAME_OCTETS_MAX or _CONTROL.search(name) or "\ufffd" in name:
                    raise LoginRefused("the token's name for its bearer is too long, or no plain text")
                return name
        raise LoginRefused("the token does not name its bearer")

    def _forget(self) -> None:
        """Keys have changed, perhaps because one was withdrawn."""
        self._known.clear()

    def _digest(self, token: bytes) -> bytes:
        return hashlib.blake2b(token, key=self._secret, digest_size=32).digest()

    def close(self) -> None:
        self._keys.close()


def is_token(password: bytes) -> bool:
    """Whether it looks like one: three parts, of which the first is JSON."""
    return len(password) <= TOKEN_BYTES_MAX and _TOKEN.fullmatch(password) is not None


def signed_claims(token: bytes, key: Any, algorithm: str) -> dict[str, Any]:
    """The claims, if the signature is good; their meaning is the caller's business."""
    import jwt

    options: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
    options["verify_signature"] = True
    try:
        claims: dict[str, Any] = jwt.decode(token, key, algorithms=[algorithm], options=options)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise LoginRefused("the token's signature is not good") from None
    return claims


def _moment(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise LoginRefused(f"the token's {name} is no time")
    return float(value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
