"""A provider of tokens: its keys, what it publishes of them, and tokens of every kind."""

from __future__ import annotations

import base64
import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "leveret"


@cache
def private_key(kind: str, name: str = "") -> Any:
    """Each name has its own; made once, because that takes long."""
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    if kind == "weak":
        return rsa.generate_private_key(65537, 1024)
    if kind == "ec":
        return ec.generate_private_key(ec.SECP256R1())
    if kind == "ec384":
        return ec.generate_private_key(ec.SECP384R1())
    return ed25519.Ed25519PrivateKey.generate()


def pem(key: Any) -> str:
    """The public half."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    text: bytes = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return text.decode()


def jwk(kid: str, key: Any) -> dict[str, Any]:
    public = key.public_key()
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    if isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = OKPAlgorithm
    return {**json.loads(algorithm.to_jwk(public)), "kid": kid, "use": "sig"}


def jwks(**keys: Any) -> bytes:
    return json.dumps({"keys": [jwk(kid, key) for kid, key in keys.items()]}).encode()


def claims(*scopes: str, now: float | None = None, **more: Any) -> dict[str, Any]:
    """What a good token says; None takes a claim away."""
    moment = time.time() if now is None else now
    said = {
        "sub": "ann",
        "aud": AUDIENCE,
        "iat": int(moment),
        "exp": int(moment) + 300,
        "scope": " ".join(f"rabbitmq.{scope}" for scope in scopes),
        **more,
    }
    return {name: value for name, value in said.items() if value is not None}


def sign(said: dict[str, Any], key: Any, algorithm: str = "RS256", kid: str | None = "k1", **head: Any) -> str:
    headers = {**head, **({} if kid is None else {"kid": kid})}
    return jwt.encode(said, key, algorithm=algorithm, headers=headers)


def encoded(part: Any) -> str:
    octets = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")
