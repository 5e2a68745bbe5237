"""May this user do that? One object per connection answers for one user in one virtual host.

The only place that decides on permissions: AMQP and HTTP both ask here. Keeps what it decided, up to a limit."""

from __future__ import annotations

import re

from leveret.catalog.catalog import Catalog
from leveret.errors import SoftError

REMEMBERED_MAX = 1024
CONFIGURE, WRITE, READ = "configure", "write", "read"


class Access:
    def __init__(self, catalog: Catalog, user: str, vhost: str) -> None:
        self._catalog = catalog
        self.user = user
        self.vhost = vhost
        self._remembered: dict[tuple[str, str], bool] = {}

    def forget(self) -> None:
        """The user's permissions have changed."""
        self._remembered.clear()

    def check_queue(self, kind: str, name: str) -> None:
        self._check(kind, "queue", name, name)

    def check_exchange(self, kind: str, name: str) -> None:
        # The default exchange has no name; RabbitMQ's permissions know it as amq.default.
        self._check(kind, "exchange", name, name or "amq.default")

    def _check(self, kind: str, resource: str, name: str, known_as: str) -> None:
        allowed = self._remembered.get((kind, known_as))
        if allowed is None:
            allowed = self._decide(kind, known_as)
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[kind, known_as] = allowed
        if not allowed:
            raise SoftError(
                403, f"access to {resource} '{known_as}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )

    def _decide(self, kind: str, name: str) -> bool:
        permission = self._catalog.permissions.get((self.user, self.vhost))
        if permission is None:
            return False
        pattern = {CONFIGURE: permission.configure, WRITE: permission.write, READ: permission.read}[kind]
        # An empty pattern allows nothing, as in RabbitMQ.
        return re.search(pattern or "^$", name) is not None
