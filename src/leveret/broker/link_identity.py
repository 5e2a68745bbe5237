"""Who a link is inside its own broker when its URI names no user: nobody of the catalog, with every right in one
virtual host. Who may set such a link is checked when its parameter is set (`broker.parameters.check_reach`)."""

from __future__ import annotations

from leveret.auth.identity import Identity

__all__ = ["LinkIdentity"]

IMPERSONATOR = "impersonator"


class LinkIdentity(Identity):
    def __init__(self, vhost: str) -> None:
        self.name = ""
        self._vhost = vhost

    @property
    def tags(self) -> tuple[str, ...]:
        # The user-id of a message that a link moves is the one that published it.
        return (IMPERSONATOR,)

    @property
    def exists(self) -> bool:
        return True

    def may_enter(self, vhost: str) -> bool:
        return vhost == self._vhost

    def allows(self, kind: str, vhost: str, name: str) -> bool:
        return vhost == self._vhost

    def has_topics(self, vhost: str, exchange: str) -> bool:
        return False

    def allows_topic(self, kind: str, vhost: str, exchange: str, key: str) -> bool:
        return vhost == self._vhost
