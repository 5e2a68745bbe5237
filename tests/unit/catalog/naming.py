"""Records for the catalog's tests, in virtual host / unless said otherwise."""

from __future__ import annotations

from typing import Any

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Added, Change
from leveret.catalog.patterns import escaped
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    Permission,
    Policy,
    QueueRecord,
    Record,
    ReplayFilter,
    Reprocessing,
    TopicPermission,
    User,
    Vhost,
)


def all_but(name: str) -> str:
    """The pattern of every name but this one, without look-ahead: it goes another way at some letter, or on."""
    letters = enumerate(name)
    ways = [f"{escaped(name[:at])}($|[^{escaped(letter)}])" for at, letter in letters]
    return f"^({'|'.join(ways)}|{escaped(name)}.)"


def exchange(name: str, auto_delete: bool = False, vhost: str = "/", **arguments: Any) -> ExchangeRecord:
    return ExchangeRecord(vhost, name, "fanout", False, auto_delete, False, arguments)


def queue(name: str, owner: int = 0, vhost: str = "/", **arguments: Any) -> QueueRecord:
    return QueueRecord(vhost, name, "classic", False, False, owner, arguments)


def super_exchange(name: str, vhost: str = "/", kind: str = "direct") -> ExchangeRecord:
    return ExchangeRecord(vhost, name, kind, True, False, False, {"x-super-stream": True})


def stream(name: str, id: int = 0, vhost: str = "/", **arguments: Any) -> QueueRecord:
    return QueueRecord(vhost, name, "stream", True, False, 0, {"x-queue-type": "stream", **arguments}, id)


def to_queue(source: str, name: str, key: str = "", vhost: str = "/", **arguments: Any) -> BindingRecord:
    return BindingRecord(vhost, source, True, name, key, arguments)


def to_exchange(source: str, name: str, key: str = "", vhost: str = "/", **arguments: Any) -> BindingRecord:
    return BindingRecord(vhost, source, False, name, key, arguments)


def permission(user: str, vhost: str = "/", pattern: str = ".*") -> Permission:
    return Permission(user, vhost, pattern, pattern, pattern)


def policy(
    name: str,
    definition: dict[str, Any] | None = None,
    pattern: str = "",
    priority: int = 0,
    apply_to: str = "all",
    operator: bool = False,
    vhost: str = "/",
) -> Policy:
    definition = {"message-ttl": 1000} if definition is None else definition
    return Policy(vhost, name, pattern, apply_to, priority, definition, operator)


def job(queue: str, vhost: str = "/", filter: ReplayFilter | None = None, moved: int = 0) -> Reprocessing:
    chosen = ReplayFilter() if filter is None else filter
    return Reprocessing(vhost, queue, "1", "origin", "", "", chosen, 0, 0.0, False, None, False, 1, 9, moved=moved)


def catalog_of(*records: Record) -> Catalog:
    """A catalog with virtual host / and these records, made by commands as ever."""
    catalog = Catalog()
    catalog.apply(commands.PutVhost(Vhost("/")))
    for record in records:
        match record:
            case Vhost():
                catalog.apply(commands.PutVhost(record))
            case User():
                catalog.apply(commands.PutUser(record))
            case Permission():
                catalog.apply(commands.PutPermission(record))
            case TopicPermission():
                catalog.apply(commands.PutTopicPermission(record))
            case ExchangeRecord():
                catalog.apply(commands.DeclareExchange(record))
            case QueueRecord():
                catalog.apply(commands.DeclareQueue(record))
            case BindingRecord():
                catalog.apply(commands.Bind(record))
            case Policy():
                catalog.apply(commands.PutPolicy(record))
            case Reprocessing():
                catalog.apply(commands.PutJob(record))
    return catalog


def told(changes: list[Change]) -> list[str]:
    """The changes in short, such as "-queue q" or "+binding x>q"."""
    return [f"{'+' if isinstance(change, Added) else '-'}{_short(change.record)}" for change in changes]


def _short(record: object) -> str:
    match record:
        case BindingRecord(source=source, destination=destination):
            return f"binding {source}>{destination}"
        case ExchangeRecord(name=name):
            return f"exchange {name}"
        case QueueRecord(name=name):
            return f"queue {name}"
        case Permission(user=user, vhost=vhost):
            return f"permission {user}@{vhost}"
        case User(name=name):
            return f"user {name}"
        case Vhost(name=name):
            return f"vhost {name}"
        case Policy(name=name, operator=operator):
            return f"operator policy {name}" if operator else f"policy {name}"
        case Reprocessing(queue=name):
            return f"job {name}"
    raise TypeError(f"no such record: {record!r}")
