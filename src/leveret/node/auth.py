"""What the settings say about logins and limits, as the broker wants to know it."""

from __future__ import annotations

from pathlib import Path

from leveret.auth.login import AuthSettings
from leveret.auth.node_limits import NodeLimits
from leveret.auth.token_keys import read_pem
from leveret.auth.tokens import TokenSettings
from leveret.errors import ConfigError
from leveret.node.config.settings import Settings

KEY_BYTES_MAX = 64 * 1024


def auth_settings(settings: Settings) -> AuthSettings:
    """Reads the files that are named. Raises ConfigError."""
    auth = settings.auth
    return AuthSettings(
        loopback_users=auth.loopback_users,
        failures_max=auth.failures_max,
        password_hash=auth.password_hash,
        suspends_on_damage=auth.damaged_catalog == "suspend",
        tokens=_token_settings(settings) if auth.tokens.enabled else None,
    )


def _token_settings(settings: Settings) -> TokenSettings:
    tokens = settings.auth.tokens
    return TokenSettings(
        issuer=tokens.issuer,
        audience=tokens.audience,
        keys={kid: _read_key(kid, path) for kid, path in tokens.keys.items()},
        jwks_url=tokens.jwks_url,
        jwks_ca=tokens.jwks_ca,
        algorithms=tokens.algorithms,
        scope_prefix=tokens.scope_prefix,
        name_claims=tokens.name_claims,
        leeway_s=tokens.leeway_s,
    )


def _read_key(kid: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(KEY_BYTES_MAX).decode()
        read_pem(text)
    except OSError as error:
        raise ConfigError(f"auth.tokens.keys.{kid}: cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"auth.tokens.keys.{kid}: {path}: {error}") from None
    return text


def node_limits(settings: Settings) -> NodeLimits:
    """Every limit that the broker counts is set in [limits] by the same name."""
    return NodeLimits(**{name: getattr(settings.limits, name) for name in NodeLimits.__struct_fields__})
