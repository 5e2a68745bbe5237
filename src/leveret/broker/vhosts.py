"""Virtual hosts as operators change them: made, described, limited, protected, deleted.

For HTTP, definitions and the command line alike. Who may ask for it was decided before."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.users import ALL, check_name
from leveret.catalog import commands
from leveret.catalog.commands import Command
from leveret.catalog.parameters import VHOST_LIMIT_NAMES, limit_problems
from leveret.catalog.records import Permission, Vhost
from leveret.errors import InvalidRequest
from leveret.queues.registry import known_kind

DESCRIPTION_CHARACTERS_MAX = 1024
TAGS_MAX = 64
# What RabbitMQ shows and takes for no type.
UNDEFINED = "undefined"


class VhostService:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def find(self, name: str) -> Vhost | None:
        return self._broker.catalog.vhosts.get(name)

    def put(self, vhost: Vhost, creator: str | None = None) -> bool:
        """Makes a virtual host or changes one; whether it is new. Whoever makes it may do everything in it, as in
        RabbitMQ; `creator` is a user of the catalog, or None."""
        check_vhost(vhost)
        existing = self.find(vhost.name)
        if existing == vhost:
            return False
        made: list[Command] = [commands.PutVhost(vhost)]
        if existing is None and creator in self._broker.catalog.users:
            made.append(commands.PutPermission(Permission(str(creator), vhost.name, ALL, ALL, ALL)))
        self._broker.apply(commands.Together(tuple(made)))
        return existing is None

    def delete(self, name: str) -> bool:
        """With all that is in it; whether there was one."""
        vhost = self.find(name)
        if vhost is None:
            return False
        if vhost.protected:
            raise InvalidRequest(
                f"virtual host '{name}' is protected from deletion; take the protection back first, with "
                f"DELETE /api/vhosts/.../deletion/protection"
            )
        self._broker.apply(commands.DeleteVhost(name))
        return True

    def protect(self, vhost: Vhost, protected: bool) -> None:
        self.put(msgspec.structs.replace(vhost, protected=protected))

    def set_limit(self, vhost: Vhost, limit: str, value: Any) -> None:
        self.set_limits(vhost, {**vhost.limits, limit: value})

    def clear_limit(self, vhost: Vhost, limit: str) -> None:
        self.set_limits(vhost, {name: value for name, value in vhost.limits.items() if name != limit})

    def set_limits(self, vhost: Vhost, limits: dict[str, Any]) -> None:
        check_limits(limits)
        self.put(msgspec.structs.replace(vhost, limits=dict(limits)))


# ---- checks, which definitions make as well


def check_vhost(vhost: Vhost) -> None:
    check_name("virtual host", vhost.name)
    if len(vhost.description) > DESCRIPTION_CHARACTERS_MAX:
        raise InvalidRequest(f"a description has at most {DESCRIPTION_CHARACTERS_MAX} characters")
    if len(vhost.tags) > TAGS_MAX:
        raise InvalidRequest(f"a virtual host has at most {TAGS_MAX} tags")
    for tag in vhost.tags:
        check_name("tag", tag)
    if vhost.default_queue_type and known_kind(vhost.default_queue_type) is None:
        raise InvalidRequest(f"default_queue_type: unsupported queue type '{vhost.default_queue_type}'")
    check_limits(vhost.limits)


def check_limits(limits: Any) -> None:
    problems = limit_problems(limits, VHOST_LIMIT_NAMES, "limits")
    if problems:
        raise InvalidRequest(f"Validation failed\n\n{problems[0]}\n")
