"""The records the catalog is made of. They never change: a command replaces them.

Plain data that msgspec can write and read back, so that the same records go into logs and snapshots."""

from __future__ import annotations

from typing import Any

import msgspec

Arguments = dict[str, Any]


class Vhost(msgspec.Struct, frozen=True, tag=True):
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    # Of queues that are declared without one; empty for classic.
    default_queue_type: str = ""
    tracing: bool = False
    # Nobody deletes it before this is taken back.
    protected: bool = False
    # max-connections and max-queues; what is missing or negative is without limit.
    limits: dict[str, int] = {}


class User(msgspec.Struct, frozen=True, tag=True):
    name: str
    # As catalog/passwords.py writes it, or empty for a user that cannot log in with a password.
    password_hash: str
    tags: tuple[str, ...] = ()
    # max-connections and max-channels; what is missing or negative is without limit.
    limits: dict[str, int] = {}


class Permission(msgspec.Struct, frozen=True, tag=True):
    """Three regular expressions that a resource's name must match for the user to configure, write or read it."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermission(msgspec.Struct, frozen=True, tag=True):
    """Two regular expressions that a routing key must match at this topic exchange: to publish with it, and to bind
    with it. A user without one for an exchange is not asked about keys there."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class Parameter(msgspec.Struct, frozen=True, tag=True):
    """What a component such as shovel or federation-upstream was told for one virtual host; any value of JSON."""

    vhost: str
    component: str
    name: str
    value: Any


class GlobalParameter(msgspec.Struct, frozen=True, tag=True):
    name: str
    value: Any


class ExchangeRecord(msgspec.Struct, frozen=True, tag=True, gc=False):
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments
    # Names what it keeps in the log of messages, and is never used twice; 0 if it keeps nothing that survives.
    id: int = 0


class QueueRecord(msgspec.Struct, frozen=True, tag=True, gc=False):
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    # The id of the connection that alone may use it, or 0. Such a queue goes with its connection.
    owner: int
    arguments: Arguments
    # Names the queue in the log of messages, and is never used twice; 0 for a queue that does not survive.
    id: int = 0
    # When it was declared, in milliseconds since 1970; 0 for one that does not survive, or that a version without this
    # has declared.
    created_ms: int = 0

    @property
    def identity(self) -> str:
        """Another one for another queue of the same name, on this broker or in another data directory."""
        return f"{self.id}-{self.created_ms}"


class BindingRecord(msgspec.Struct, frozen=True, tag=True, gc=False):
    vhost: str
    source: str
    to_queue: bool
    destination: str
    routing_key: str
    arguments: Arguments


class Policy(msgspec.Struct, frozen=True, tag=True):
    """Settings for every queue and exchange whose name the pattern is found in. An operator's policy stands beside the
    others and only lowers limits."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    # What JSON can say, in keys such as message-ttl.
    definition: Arguments
    operator: bool = False
    # When it was set, in milliseconds of the wall clock: a time to live counts for messages from then on.
    set_at_ms: int = 0


class ReplayFilter(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which messages of a queue are meant: those that fulfil all that is given. Names are those of a dead letter's
    first death; a pattern is found in a name, as a policy's is."""

    reason: str | None = None
    queue: str | None = None
    queue_pattern: str | None = None
    exchange: str | None = None
    exchange_pattern: str | None = None
    routing_key: str | None = None
    routing_key_pattern: str | None = None
    # Headers with these values, which are what JSON can say.
    headers: Arguments = {}
    # Since its first death, or since it came if it never died.
    age_s_min: float | None = None
    age_s_max: float | None = None
    # How often it died, all reasons and queues together.
    deaths_min: int | None = None
    deaths_max: int | None = None
    replays_max: int | None = None
    body_contains: bytes | None = None


class Suspension(msgspec.Struct, frozen=True, tag=True):
    """A user who is not let in until an operator decides: the catalog has lost commands, which may have taken rights
    away."""

    user: str
    reason: str
    # Seconds of the wall clock.
    since_s: int


class ReplayArchive(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Messages older than this go elsewhere for good, as they are: to an exchange, or into the node's archive of
    files."""

    after_s: float
    exchange: str
    routing_key: str
    to_files: bool = False


class Reprocessing(msgspec.Struct, frozen=True, tag=True):
    """A job that moves messages out of a queue, as it was asked for and how far it is. A queue has one, or the last one
    that it had."""

    vhost: str
    queue: str
    id: str
    # origin: exchange and key of the first death; origin-queue: the queue of it; target: the exchange and key here.
    to: str
    exchange: str
    routing_key: str
    filter: ReplayFilter
    # Messages at most; 0 for all. Messages a second at most; 0 for as fast as it goes.
    limit: int
    rate: float
    # Only counts what it would move.
    dry_run: bool
    archive: ReplayArchive | None
    # Whether nobody asked for it but the schedule.
    scheduled: bool
    created_ms: int
    # Only messages before this position in the queue are meant: those that were there when it began.
    end_position: int
    # running, done, cancelled or failed
    state: str = "running"
    matched: int = 0
    moved: int = 0
    archived: int = 0
    skipped: int = 0
    failed: int = 0
    ended_ms: int = 0
    last_error: str = ""
    # Whether it ends at the first message that cannot be moved; if not, that one stays and it goes on.
    stops: bool = False


Record = (
    Vhost
    | User
    | Permission
    | TopicPermission
    | Parameter
    | GlobalParameter
    | ExchangeRecord
    | QueueRecord
    | BindingRecord
    | Policy
    | Reprocessing
    | Suspension
)
