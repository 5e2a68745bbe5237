"""The public keys that tokens are signed with: those of files, and those that a provider publishes (JWKS).

Published keys are fetched when a token names one that is not known, and now and then; at most one fetch at a time, and
not more than one a minute. After any error the last good keys stay: an error page must neither lock all users
out nor let one in. Never looks at a token itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from leveret.runtime.clock import Clock
from leveret.runtime.https import FetchError
from leveret.runtime.log import get_logger

log = get_logger(__name__)

DOCUMENT_BYTES_MAX = 256 * 1024
FETCH_DEADLINE_S = 5.0
# Between two fetches at least; and after this long the keys are looked for again, to notice those that were withdrawn.
FETCH_EVERY_S = 60.0
STALE_S = 900.0
KEYS_MAX = 100
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}

Fetch = Callable[[str, str, int, float], Awaitable[bytes]]


class TokenKeys:
    def __init__(self, files: dict[str, str], url: str, ca: str, clock: Clock, fetch: Fetch) -> None:
        """`files` are PEM texts by their key id. Raises ValueError for one that is no public key."""
        self._given = {name: read_pem(text) for name, text in files.items()}
        self._published: dict[str, Any] = {}
        self._url = url
        self._ca = ca
        self._clock = clock
        self._fetch = fetch
        self._fetched_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None
        # Called when published keys have changed.
        self.on_changed: Callable[[], None] = lambda: None

    async def find(self, kid: str | None) -> Any | None:
        """The key of this id; without an id the only one there is. None if there is none."""
        key = self._known(kid)
        if self._url:
            age_s = None if self._fetched_at is None else self._clock.monotonic() - self._fetched_at
            if key is None and (age_s is None or age_s >= FETCH_EVERY_S):
                await asyncio.shield(self._start())
                key = self._known(kid)
            elif age_s is None or age_s >= STALE_S:
                self._start()
            elif key is None and self._fetching is not None:
                await asyncio.shield(self._fetching)
                key = self._known(kid)
        return key

    def _known(self, kid: str | None) -> Any | None:
        keys = {**self._published, **self._given}
        if kid is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(kid)

    def _start(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._fetched_at = self._clock.monotonic()
            self._fetching = asyncio.ensure_future(self._refresh())
        return self._fetching

    async def _refresh(self) -> None:
        try:
            document = await self._fetch(self._url, self._ca, DOCUMENT_BYTES_MAX, FETCH_DEADLINE_S)
            published = read_jwks(document)
        except (FetchError, ValueError) as error:
            log.warning("keys for tokens not fetched", url=self._url, reason=str(error), kept=len(self._published))
            return
        finally:
            self._fetching = None
        if published.keys() != self._published.keys():
            log.info("keys for tokens fetched", url=self._url, keys=len(published))
        self._published = published
        self.on_changed()

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()


# ---- reading keys


def read_pem(text: str) -> Any:
    """A public key, or that of a certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    octets = text.encode()
    try:
        if "BEGIN CERTIFICATE" in text:
            key: Any = x509.load_pem_x509_certificate(octets).public_key()
        else:
            key = load_pem_public_key(octets)
    except Exception as error:  # noqa: BLE001 - cryptography raises errors of many kinds
        raise ValueError(f"it is no public key: {error}") from None
    return checked(key)


def read_jwks(document: bytes) -> dict[str, Any]:
    """By key id. Keys that are of no use here are passed over; raises ValueError if none is left."""
    try:
        tree = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("the document is no JSON") from None
    listed = tree.get("keys") if isinstance(tree, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the document is no set of keys")
    found: dict[str, Any] = {}
    for entry in listed[:KEYS_MAX]:
        if isinstance(entry, dict) and isinstance(entry.get("kid"), str):
            key = _read_jwk(entry)
            if key is not None:
                found[entry["kid"]] = key
    if not found:
        raise ValueError("the document has no key that signs tokens")
    return found


def _read_jwk(entry: dict[str, Any]) -> Any | None:
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    readers: dict[Any, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
    reader = readers.get(entry.get("kty")) if isinstance(entry.get("kty"), str) else None
    if reader is None or entry.get("use", "sig") != "sig" or "d" in entry:
        # Of another kind, such as a shared secret, or not for signatures; or a private key, which is never public.
        return None
    try:
        return checked(reader.from_jwk(entry))
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is none
        return None


def checked(key: Any) -> Any:
    """Refuses keys that are too weak, too large, or not public."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if isinstance(key, RSAPublicKey):
        if not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
            raise ValueError(f"an RSA key has {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, not {key.key_size}")
    elif not isinstance(key, EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey):
        raise ValueError("it is of a kind that signs no tokens")
    return key


def fits(key: Any, algorithm: str) -> bool:
    """Whether a signature of this algorithm can be this key's."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if isinstance(key, RSAPublicKey):
        return algorithm[:2] in ("RS", "PS")
    if isinstance(key, EllipticCurvePublicKey):
        return _CURVES.get(algorithm) == key.curve.name
    return algorithm == "EdDSA"
