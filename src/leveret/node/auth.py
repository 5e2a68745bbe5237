"""What the settings say about logins and limits, as the broker wants to know it."""

from __future__ import annotations

from leveret.broker.limits import NodeLimits
from leveret.broker.login import AuthSettings
from leveret.node.config.settings import Settings


def auth_settings(settings: Settings) -> AuthSettings:
    auth = settings.auth
    return AuthSettings(
        loopback_users=auth.loopback_users, failures_max=auth.failures_max, password_hash=auth.password_hash
    )


def node_limits(settings: Settings) -> NodeLimits:
    return NodeLimits(settings.limits.connections_max, settings.limits.channels_max)
