"""The federation of a node: a link for every upstream of every exchange and queue that a policy federates.

Follows policies, parameters, exchanges, queues and bindings of the catalog. One task starts and stops links, so that
none runs twice. A link that is not wanted any more is removed at its upstream as well; one that only stops with the
node is not, so that nothing is missed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator

from leveret.broker.broker import Broker
from leveret.broker.link_status import LinkStatus
from leveret.catalog.commands import Change
from leveret.catalog.parameters import UPSTREAM, UPSTREAM_SET
from leveret.catalog.records import BindingRecord, ExchangeRecord, Parameter, Policy, QueueRecord, Vhost
from leveret.client.errors import ClientError
from leveret.links.dialing import Dialer
from leveret.links.federation.bindings import INTERNAL_PREFIX
from leveret.links.federation.exchange_link import ExchangeLinkWork
from leveret.links.federation.hops import Cluster
from leveret.links.federation.queue_link import QueueLinkWork
from leveret.links.federation.upstreams import POLICY_KEYS, Upstream, upstreams_of
from leveret.links.placement import Placement
from leveret.links.supervisor import Supervised
from leveret.runtime.log import get_logger
from leveret.runtime.time_slice import TimeSlice

__all__ = ["Federation"]

log = get_logger(__name__)

EXCHANGE, QUEUE = "exchange", "queue"
REMOVE_DEADLINE_S = 10.0
# (virtual host, exchange or queue, its name, upstream)
Key = tuple[str, str, str, str]
Wanted = tuple[Upstream, ExchangeRecord | QueueRecord, str]


class Federation:
    """`cluster` gives name and id of this broker's cluster."""

    def __init__(
        self,
        broker: Broker,
        dialer: Dialer,
        placement: Placement,
        node_name: str,
        cluster: Callable[[], tuple[str, str]],
    ) -> None:
        self._broker = broker
        self._dialer = dialer
        self._placement = placement
        self._node_name = node_name
        self._cluster = cluster
        self._running: dict[Key, tuple[Wanted, Supervised]] = {}
        self._restarts: set[Key] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- life

    def open(self) -> None:
        self._broker.listeners.append(self._on_change)
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="leveret federation")
        self._changed.set()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        self._broker.listeners.remove(self._on_change)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        running, self._running = self._running, {}
        await asyncio.gather(*(supervised.stop() for _, supervised in running.values()))

    def _on_change(self, change: Change) -> None:
        record = change.record
        if isinstance(record, BindingRecord):
            self._bindings_changed(record)
        elif isinstance(record, ExchangeRecord | QueueRecord):
            # Most brokers federate nothing: then nothing is looked through.
            if self._running or self._federates(record.vhost):
                self._changed.set()
        elif not isinstance(record, Parameter) or record.component in (UPSTREAM, UPSTREAM_SET):
            if isinstance(record, Parameter | Policy | Vhost):
                self._changed.set()

    def _federates(self, vhost: str) -> bool:
        book = self._broker.catalog.policies.get(vhost)
        return book is not None and any(key in one.definition for one in book.all() for key in POLICY_KEYS)

    def _bindings_changed(self, binding: BindingRecord) -> None:
        for (vhost, kind, name, _), (_, supervised) in self._running.items():
            if (vhost, kind, name) == (binding.vhost, EXCHANGE, binding.source):
                work = supervised.work
                assert isinstance(work, ExchangeLinkWork)
                work.bindings_changed()

    # ---- following

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._reconcile()
            except Exception:
                # A mistake of ours with one link; the others, and changes to come, are to be followed.
                log.exception("federation could not be brought in step with its policies")

    async def _reconcile(self) -> None:
        wanted = await self._wanted()
        restarts, self._restarts = self._restarts, set()
        stale = [
            key
            for key, (before, _) in self._running.items()
            if key in restarts or key not in wanted or _settings(before) != _settings(wanted[key])
        ]
        await asyncio.gather(*(self._stop(key, key in wanted) for key in stale))
        for key, one in wanted.items():
            if key not in self._running:
                self._start(key, one)

    async def _stop(self, key: Key, comes_back: bool) -> None:
        _, supervised = self._running.pop(key)
        await supervised.stop()
        if comes_back:
            return
        work = supervised.work
        assert isinstance(work, ExchangeLinkWork | QueueLinkWork)
        try:
            await asyncio.wait_for(work.remove(self._dialer), REMOVE_DEADLINE_S)
        except (ClientError, OSError, TimeoutError) as error:
            log.warning("a federation link could not be removed at its upstream", link=work.title, reason=str(error))

    def _start(self, key: Key, one: Wanted) -> None:
        upstream, record, _ = one
        ours = Cluster(*self._cluster(), record.vhost)
        work = (
            ExchangeLinkWork(self._broker.catalog, record, upstream, ours)
            if isinstance(record, ExchangeRecord)
            else QueueLinkWork(self._broker, record, upstream, ours)
        )
        supervised = Supervised(work, self._dialer, self._broker.clock.wall)
        self._running[key] = (one, supervised)
        supervised.start()

    async def _wanted(self) -> dict[Key, Wanted]:
        """Looks through everything of the virtual hosts that federate, with pauses. What changes meanwhile is looked at
        once more."""
        catalog = self._broker.catalog
        turn = TimeSlice()
        found: dict[Key, Wanted] = {}
        for vhost in [name for name in catalog.vhosts if self._federates(name)]:
            topology = catalog.topologies[vhost]
            records: list[ExchangeRecord | QueueRecord] = [*topology.exchanges.values(), *topology.queues.values()]
            for record in records:
                if vhost in catalog.vhosts and _may_be_federated(record):
                    found.update(self._links_of(record))
                await turn.rest()
        return found

    def _links_of(self, record: ExchangeRecord | QueueRecord) -> Iterator[tuple[Key, Wanted]]:
        catalog, vhost = self._broker.catalog, record.vhost
        book = catalog.policies[vhost]
        is_exchange = isinstance(record, ExchangeRecord)
        policy = (book.of_exchange(record) if isinstance(record, ExchangeRecord) else book.of_queue(record)).policy
        for upstream in [] if policy is None else upstreams_of(catalog, vhost, policy.definition):
            key = (vhost, EXCHANGE if is_exchange else QUEUE, record.name, upstream.name)
            if policy is not None and self._placement.runs_here("federation", vhost, "/".join(key[1:])):
                yield key, (upstream, record, policy.name)

    # ---- for operators

    def links(self, vhost: str | None = None) -> list[LinkStatus]:
        return [self._status(key) for key in sorted(self._running) if vhost in (None, key[0])]

    def restart(self, vhost: str, link_id: str) -> bool:
        found = next((key for key in self._running if key[0] == vhost and _id_of(key) == link_id), None)
        if found is None:
            return False
        self._restarts.add(found)
        self._changed.set()
        return True

    def _status(self, key: Key) -> LinkStatus:
        (upstream, _, policy), supervised = self._running[key]
        vhost, kind, name, _ = key
        work = supervised.work
        assert isinstance(work, ExchangeLinkWork | QueueLinkWork)
        return LinkStatus(
            name=f"{kind} {name} from {upstream.name}",
            vhost=vhost,
            kind=kind,
            state=supervised.state,
            reason=supervised.reason,
            since=supervised.since,
            node=self._node_name,
            counters=supervised.counters,
            in_flight=supervised.in_flight,
            lag=None,
            details={
                kind: name,
                f"upstream_{kind}": work.remote_name,
                "upstream": upstream.name,
                "id": _id_of(key),
                "uri": supervised.source_shown,
                "policy": policy,
                "local_connection": "",
                **({"consumer_tag": upstream.consumer_tag} if kind == QUEUE else {}),
            },
        )


def _may_be_federated(record: ExchangeRecord | QueueRecord) -> bool:
    """The default exchange has no bindings to follow, nobody publishes to an internal one, and what other links have
    made here is theirs."""
    if record.name.startswith(INTERNAL_PREFIX):
        return False
    if isinstance(record, ExchangeRecord):
        return record.name != "" and not record.internal
    return not record.owner


def _settings(one: Wanted) -> tuple[Upstream, str]:
    """What a link is made of: when that changes, it is made anew. The policy's name does not matter."""
    upstream, record, _ = one
    return upstream, record.kind


def _id_of(key: Key) -> str:
    return hashlib.sha256("\0".join(key).encode("utf-8", "surrogateescape")).hexdigest()[:16]
