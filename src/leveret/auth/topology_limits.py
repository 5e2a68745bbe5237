"""How much topology a virtual host may have: exchanges, queues, bindings, their arguments, policies and parameters.

Everything that is declared passes here before its command is applied, whichever protocol it came by, and so does what
the broker makes itself, such as parking lots. The catalog counts. Raises 406, in RabbitMQ's words where it has some."""

from __future__ import annotations

from collections.abc import Callable

from leveret.auth.consumer_limits import check_arguments
from leveret.auth.node_limits import NodeLimits
from leveret.catalog.argument_size import argument_bytes
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import Arguments
from leveret.errors import SoftError

MAX_QUEUES = "max-queues"


class TopologyLimits:
    def __init__(self, catalog: Catalog, node: Callable[[], NodeLimits]) -> None:
        self._catalog = catalog
        self._node = node

    def check_exchange(self, vhost: str, name: str, arguments: Arguments) -> None:
        most = self._node().exchanges_per_vhost_max
        if most and len(self._catalog.topologies[vhost].exchanges) >= most:
            raise SoftError(
                406, f"cannot declare exchange '{name}': exchange limit in vhost '{vhost}' ({most}) is reached"
            )
        self.check_arguments(vhost, arguments)

    def check_queues(self, vhost: str, name: str, arguments: Arguments, more: int = 1) -> None:
        """Before so many queues are made with these arguments."""
        topology = self._catalog.topologies[vhost]
        for limit in (self.queue_limit(vhost), self._node().queues_per_vhost_max or None):
            if limit is not None and len(topology.queues) + more > limit:
                raise SoftError(
                    406, f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached"
                )
        self.check_arguments(vhost, arguments, more)

    def queue_limit(self, vhost: str) -> int | None:
        """What its operator has set; None for none."""
        limit = self._catalog.vhosts[vhost].limits.get(MAX_QUEUES, -1)
        return None if limit < 0 else limit

    def check_bindings(self, vhost: str, arguments: Arguments, more: int = 1) -> None:
        most = self._node().bindings_per_vhost_max
        if most and self._catalog.topologies[vhost].binding_count + more > most:
            raise SoftError(406, f"cannot bind: binding limit in vhost '{vhost}' ({most}) is reached")
        self.check_arguments(vhost, arguments, more)

    def check_arguments(self, vhost: str, arguments: Arguments, times: int = 1) -> None:
        """Those of one thing, and of the virtual host with them."""
        if not arguments:
            return
        node = self._node()
        size = argument_bytes(arguments)
        check_arguments(size, node.arguments_bytes_max)
        most = node.arguments_per_vhost_bytes_max
        if most and self._catalog.topologies[vhost].argument_bytes + size * times > most:
            raise SoftError(406, f"limit of arguments in vhost '{vhost}' ({most} bytes) is reached")

    def check_policies(self, vhost: str) -> None:
        """Before one more is made."""
        most = self._node().policies_per_vhost_max
        if most and len(self._catalog.policies[vhost]) >= most:
            raise SoftError(406, f"policy limit in vhost '{vhost}' ({most}) is reached")

    def check_parameters(self, vhost: str) -> None:
        most = self._node().parameters_per_vhost_max
        if most and sum(1 for key in self._catalog.parameters if key[0] == vhost) >= most:
            raise SoftError(406, f"parameter limit in vhost '{vhost}' ({most}) is reached")
