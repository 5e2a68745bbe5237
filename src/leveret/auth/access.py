"""May this one do that? The only place that decides on permissions: AMQP, streams and HTTP all ask here.

An Access answers for one identity in one virtual host and keeps what it decided, up to a limit. `require` and
`sees_vhost` are for whatever operators do: those go by tags. A payload takes READ on its queue, over HTTP too: a
user with only the tag `management` sees how long a queue is, never what is in it."""

from __future__ import annotations

import enum

from leveret.auth.identity import CONFIGURE, READ, WRITE, Identity
from leveret.catalog.records import ExchangeRecord
from leveret.errors import Forbidden, SoftError
from leveret.routing.registry import routing_type

__all__ = ["CONFIGURE", "READ", "WRITE", "Access", "Right", "has", "require", "sees_vhost"]

REMEMBERED_MAX = 1024
TOPIC = "topic"


class Access:
    def __init__(self, identity: Identity, vhost: str) -> None:
        self.identity = identity
        self.vhost = vhost
        self._remembered: dict[tuple[str, ...], bool] = {}

    @property
    def user(self) -> str:
        return self.identity.name

    def forget(self) -> None:
        """The user's permissions have changed."""
        self._remembered.clear()

    def renew(self, identity: Identity) -> None:
        """The same user with new rights, such as those of a newer token."""
        self.identity = identity
        self.forget()

    # ---- queues and exchanges

    def check_queue(self, kind: str, name: str) -> None:
        self._check(kind, "queue", name)

    def check_exchange(self, kind: str, name: str) -> None:
        # The default exchange has no name; RabbitMQ's permissions know it as amq.default.
        self._check(kind, "exchange", name or "amq.default")

    def allows_queue(self, kind: str, name: str) -> bool:
        return self._decide(kind, name)

    def _check(self, kind: str, resource: str, name: str) -> None:
        if not self._decide(kind, name):
            raise SoftError(
                403, f"access to {resource} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )

    def _decide(self, kind: str, name: str) -> bool:
        allowed = self._remembered.get((kind, name))
        if allowed is None:
            allowed = self.identity.allows(kind, self.vhost, name)
            self._remember((kind, name), allowed)
        return allowed

    def _remember(self, question: tuple[str, ...], allowed: bool) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[question] = allowed

    # ---- routing keys

    def has_topics(self, exchange: ExchangeRecord) -> bool:
        """Whether `check_topic` must be asked for each routing key there. Exchanges that route by topic behind another
        type, such as a delayed one, count as well: RabbitMQ looks at the type's name only, and lets them through."""
        return routing_type(exchange).name == TOPIC and self.identity.has_topics(self.vhost, exchange.name)

    def check_topic(self, kind: str, exchange: ExchangeRecord, routing_key: str) -> None:
        """WRITE to publish with this key, READ to bind with it. Any other kind of exchange takes every key."""
        if not self.has_topics(exchange):
            return
        question = (kind, exchange.name, routing_key)
        allowed = self._remembered.get(question)
        if allowed is None:
            allowed = self.identity.allows_topic(kind, self.vhost, exchange.name, routing_key)
            self._remember(question, allowed)
        if not allowed:
            raise SoftError(
                403,
                f"access to topic '{routing_key}' in exchange '{exchange.name}' in vhost '{self.vhost}' refused for "
                f"user '{self.user}'",
            )


# ---- operators


class Right(enum.Enum):
    """What an operator's request takes, each given by its own tag and by those named here."""

    MANAGEMENT = ("management", "policymaker", "monitoring", "administrator")
    POLICYMAKER = ("policymaker", "administrator")
    MONITORING = ("monitoring", "administrator")
    ADMINISTRATOR = ("administrator",)
    # To publish with another's user-id; no other tag gives it.
    IMPERSONATOR = ("impersonator",)


# RabbitMQ's words for users without the tag.
_LACKING = {
    Right.MANAGEMENT: "Not management user",
    Right.POLICYMAKER: "Not policymaker user",
    Right.MONITORING: "Not monitor user",
    Right.ADMINISTRATOR: "Not administrator user",
    Right.IMPERSONATOR: "Not impersonator user",
}


def has(identity: Identity, right: Right) -> bool:
    return any(tag in right.value for tag in identity.tags)


def require(identity: Identity, right: Right, vhost: str | None = None) -> None:
    """Raises Forbidden unless the identity has the right and, if one is named, may enter the virtual host: as in
    RabbitMQ an administrator, too, needs a permission there to change anything in it."""
    if not has(identity, right):
        raise Forbidden(_LACKING[right])
    if vhost is not None and not identity.may_enter(vhost):
        raise Forbidden("User not authorised to access virtual host")


def sees_vhost(identity: Identity, vhost: str) -> bool:
    """Whether the virtual host and what is in it appear in this operator's lists."""
    return has(identity, Right.MONITORING) or (has(identity, Right.MANAGEMENT) and identity.may_enter(vhost))
