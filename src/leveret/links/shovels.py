"""The shovels of a node: those of the catalog's parameters, and those of the configuration file.

Follows the catalog: what is set is started, what changes is stopped in good order and started anew, what is deleted is
stopped. One task does that, so that no shovel ever runs twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from leveret.auth.audit import Actor
from leveret.broker.broker import Broker
from leveret.broker.link_status import TERMINATED, LinkCounters, LinkStatus
from leveret.catalog import commands
from leveret.catalog.commands import Change
from leveret.catalog.definitions import OWN_PREFIX
from leveret.catalog.parameters import SHOVEL, stored_problem
from leveret.catalog.records import GlobalParameter, Parameter, Vhost
from leveret.links.dialing import Dialer
from leveret.links.local_lag import waiting_at
from leveret.links.placement import Placement
from leveret.links.shovel import ShovelWork
from leveret.links.shovel_spec import ShovelSpec, read_shovel
from leveret.links.supervisor import Supervised
from leveret.runtime.log import get_logger

__all__ = ["Shovels"]

log = get_logger(__name__)

DYNAMIC, STATIC = "dynamic", "static"
PAUSE_PREFIX = f"{OWN_PREFIX}shovel-pause."
Key = tuple[str, str]


class Shovels:
    def __init__(
        self, broker: Broker, dialer: Dialer, placement: Placement, node_name: str, cluster_name: Callable[[], str]
    ) -> None:
        self._broker = broker
        self._dialer = dialer
        self._placement = placement
        self._node_name = node_name
        self._cluster_name = cluster_name
        # By virtual host and name; a static one has the virtual host that the configuration names.
        self._running: dict[Key, tuple[ShovelSpec, Supervised]] = {}
        self._static: dict[Key, ShovelSpec] = {}
        # Why a parameter cannot be run: an older version took it, or its secret cannot be decrypted.
        self._unusable: dict[Key, str] = {}
        # To be stopped and started although nothing about them has changed.
        self._restarts: set[Key] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- life

    def open(self, static: Mapping[Key, dict[str, Any]]) -> None:
        self._static = {key: read_shovel(value) for key, value in static.items()}
        self._broker.listeners.append(self._on_change)
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="leveret shovels")
        self._changed.set()

    def reload(self, static: Mapping[Key, dict[str, Any]]) -> None:
        self._static = {key: read_shovel(value) for key, value in static.items()}
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
        is_pause = isinstance(record, GlobalParameter) and record.name.startswith(PAUSE_PREFIX)
        is_shovel = isinstance(record, Parameter) and record.component == SHOVEL
        if is_pause or is_shovel or isinstance(record, Vhost):
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._reconcile()
            except Exception:
                # A mistake of ours with one shovel; the others, and changes to come, are to be followed.
                log.exception("shovels could not be brought in step with their parameters")

    async def _reconcile(self) -> None:
        wanted = self._wanted()
        restarts, self._restarts = self._restarts, set()
        for key, spec in wanted.items():
            if key not in self._running:
                self._start(key, spec)
        stale = [key for key, (spec, _) in self._running.items() if key in restarts or spec != wanted.get(key)]
        await asyncio.gather(*(self._replace(key, wanted.get(key)) for key in stale))
        await asyncio.gather(*(self._heed_pause(key) for key in list(self._running)))

    async def _replace(self, key: Key, spec: ShovelSpec | None) -> None:
        _, supervised = self._running[key]
        await supervised.stop()
        del self._running[key]
        if spec is not None:
            self._start(key, spec)
        elif _pause_name(key) in self._broker.catalog.global_parameters:
            self._broker.apply(commands.DeleteGlobalParameter(_pause_name(key)))

    def _wanted(self) -> dict[Key, ShovelSpec]:
        found = dict(self._static)
        self._unusable = {}
        for (vhost, component, name), parameter in self._broker.catalog.parameters.items():
            if component != SHOVEL:
                continue
            problem = stored_problem(parameter)
            if problem:
                self._unusable[vhost, name] = problem
                found.pop((vhost, name), None)
            else:
                found[vhost, name] = read_shovel(parameter.value)
        return {key: spec for key, spec in found.items() if self._placement.runs_here(SHOVEL, *key)}

    def _start(self, key: Key, spec: ShovelSpec) -> None:
        vhost, name = key
        kind = DYNAMIC if (vhost, SHOVEL, name) in self._broker.catalog.parameters else STATIC
        work = ShovelWork(name, vhost, kind, spec, self._cluster_name, self._broker.clock.wall)
        finished = (lambda: self._finished(key)) if kind == DYNAMIC else None
        supervised = Supervised(work, self._dialer, self._broker.clock.wall, finished)
        self._running[key] = (spec, supervised)
        if not self._is_paused(key):
            supervised.start()

    def _finished(self, key: Key) -> None:
        """It has moved what it was to move: it deletes itself, as in RabbitMQ."""
        vhost, name = key
        log.info("a shovel has finished and is deleted", shovel=name, vhost=vhost)
        if (vhost, SHOVEL, name) in self._broker.catalog.parameters:
            self._broker.apply(commands.DeleteParameter(vhost, SHOVEL, name), _Self(name))

    # ---- pauses, which survive a restart

    def _is_paused(self, key: Key) -> bool:
        return _pause_name(key) in self._broker.catalog.global_parameters

    async def _heed_pause(self, key: Key) -> None:
        _, supervised = self._running[key]
        if self._is_paused(key):
            await supervised.stop(paused=True)
        elif not supervised.is_started:
            supervised.start()

    # ---- for operators

    def shovels(self, vhost: str | None = None) -> list[LinkStatus]:
        keys = sorted(key for key in {**self._running, **self._unusable} if vhost in (None, key[0]))
        return [self._status(key) if key in self._running else self._unusable_status(key) for key in keys]

    def restart_shovel(self, vhost: str, name: str) -> bool:
        if (vhost, name) not in self._running:
            return False
        self._restarts.add((vhost, name))
        self._changed.set()
        return True

    def pause_shovel(self, vhost: str, name: str, paused: bool) -> bool:
        key = (vhost, name)
        if key not in self._running:
            return False
        if paused and not self._is_paused(key):
            self._broker.apply(commands.PutGlobalParameter(GlobalParameter(_pause_name(key), name)))
        elif not paused and self._is_paused(key):
            self._broker.apply(commands.DeleteGlobalParameter(_pause_name(key)))
        return True

    def _unusable_status(self, key: Key) -> LinkStatus:
        vhost, name = key
        started = self._broker.clock.wall()
        reason = self._unusable[key]
        return LinkStatus(name, vhost, DYNAMIC, TERMINATED, reason, started, self._node_name, LinkCounters(), 0, None)

    def _status(self, key: Key) -> LinkStatus:
        spec, supervised = self._running[key]
        vhost, name = key
        work = supervised.work
        assert isinstance(work, ShovelWork)
        details: dict[str, object] = {
            "src_uri": supervised.source_shown,
            "src_protocol": "amqp091",
            "dest_protocol": "amqp091",
            "dest_uri": supervised.target_shown,
        }
        for side, end in (("src", spec.source), ("dest", spec.destination)):
            named = {"queue": end.queue, "exchange": end.exchange, "exchange_key": end.key}
            details.update({f"{side}_{what}": value for what, value in named.items() if value is not None})
        return LinkStatus(
            name=name,
            vhost=vhost,
            kind=work.kind,
            state=supervised.state,
            reason=supervised.reason,
            since=supervised.since,
            node=self._node_name,
            counters=supervised.counters,
            in_flight=supervised.in_flight,
            lag=waiting_at(self._broker, vhost, spec.source.uris, spec.source.queue),
            details=details,
        )


class _Self:
    """A shovel that changes the catalog by itself."""

    def __init__(self, name: str) -> None:
        self.actor: Actor | None = Actor("", f"shovel {name}", "shovel")


def _pause_name(key: Key) -> str:
    vhost, name = key
    return f"{PAUSE_PREFIX}{len(vhost)}.{vhost}.{name}"
