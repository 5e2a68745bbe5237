"""What the settings say about logins and limits, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.errors import ConfigError
from leveret.node.auth import auth_settings, node_limits
from leveret.node.config.loading import load_settings
from leveret.testing import Broker
from tests.unit.broker.signing import pem, private_key


def test_the_settings_become_the_brokers() -> None:
    settings = load_settings(
        None,
        {
            "auth.loopback_users": ["a"],
            "auth.failures_max": 7,
            "auth.password_hash": "rabbit_sha512",
            "limits.connections_max": 3,
            "limits.channels_max": 4,
        },
    )
    auth = auth_settings(settings)
    assert (auth.loopback_users, auth.failures_max, auth.password_hash) == (("a",), 7, "rabbit_sha512")
    assert auth.tokens is None
    limits = node_limits(settings)
    assert (limits.connections_max, limits.channels_max) == (3, 4)


def test_tokens_bring_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(pem(private_key("ec")))
    settings = load_settings(
        None, {"auth.tokens.enabled": True, "auth.tokens.audience": "here", "auth.tokens.keys": {"k": str(path)}}
    )
    tokens = auth_settings(settings).tokens
    assert tokens is not None
    assert (tokens.audience, tokens.keys) == ("here", {"k": path.read_text()})


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("missing.pem", "auth.tokens.keys.k: cannot read"),
        ("bad.pem", "auth.tokens.keys.k: .*no public key"),
        (".", "auth.tokens.keys.k: cannot read"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, file: str, reason: str) -> None:
    (tmp_path / "bad.pem").write_text("no key")
    keys = {"k": str(tmp_path / file)}
    settings = load_settings(None, {"auth.tokens.enabled": True, "auth.tokens.audience": "a", "auth.tokens.keys": keys})
    with pytest.raises(ConfigError, match=reason):
        auth_settings(settings)


def test_a_reload_takes_over_keys_and_limits_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(pem(private_key("rsa")))
    tokens = {"auth.tokens.enabled": True, "auth.tokens.audience": "a", "auth.tokens.keys": {"k": str(path)}}
    with Broker() as broker:

        def reload(more: dict[str, object]) -> None:
            broker.call(lambda node: node.reload(load_settings(None, more)))

        reload({**tokens, "limits.connections_max": 9, "auth.failures_max": 8})
        seen = broker.call(lambda node: (node.broker.logins.settings, node.broker.limits.node.connections_max))
        assert seen[0].tokens is not None and (seen[0].failures_max, seen[1]) == (8, 9)
        path.write_text("no key")
        with pytest.raises(ConfigError):
            reload({**tokens, "limits.connections_max": 10})
        assert broker.call(lambda node: node.broker.limits.node.connections_max) == 9
