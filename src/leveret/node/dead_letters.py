"""What a node does about dead letters by itself: the schedule, the archive's directory, and the webhooks that are told.

Made of the settings, and made anew of what a reload changes. Owned by the node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from leveret.broker.broker import Broker
from leveret.errors import StartupError
from leveret.node.config.settings import Settings
from leveret.operations.reprocess.archive_files import ArchiveFiles
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.reprocess.schedule import Plan, Schedule
from leveret.operations.webhooks.templates import Sender
from leveret.operations.webhooks.webhooks import WebhookOptions, Webhooks
from leveret.runtime.secret import Secret


class DeadLetterCare:
    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self.reprocessor = Reprocessor(broker)
        file = None if broker.store is None else broker.store.root / "alerts" / "waiting"
        self.webhooks = Webhooks(broker.dice.name, broker.clock.wall, file=file)
        self.reprocessor.alerts.on_alert.append(self.webhooks.send)
        self.schedule = Schedule(broker, self.reprocessor, plan_of(settings))
        # Former ones too: jobs that run go on writing to them.
        self._archives: list[ArchiveFiles] = []

    def open(self, loop: asyncio.AbstractEventLoop, settings: Settings, cluster_id: str) -> None:
        """Raises StartupError."""
        self.reprocessor.cluster_id = cluster_id
        self.reprocessor.node_name = settings.chosen_node_name
        self._use(settings)
        self.reprocessor.open(loop)
        self.schedule.open(loop)

    def reload(self, settings: Settings) -> None:
        """Jobs that run go on with what they began with."""
        self.schedule.close()
        self._use(settings)
        self.schedule = Schedule(self._broker, self.reprocessor, plan_of(settings))
        self.schedule.open(asyncio.get_running_loop())

    def quiesce(self) -> None:
        self.schedule.close()

    async def close(self) -> None:
        await self.reprocessor.close()
        for archive in self._archives:
            archive.close()
        await self.webhooks.stop()

    def _use(self, settings: Settings) -> None:
        self._open_archive(settings.dead_letters.archive_dir)
        chosen = settings.dead_letters.webhook
        options = WebhookOptions(
            tuple(Secret(url) for url in chosen.urls.reveal().split()),
            chosen.template,
            chosen.ca,
            chosen.secret,
            chosen.attempts_max,
            chosen.pause_s,
            chosen.deadline_s,
        )
        sender = Sender(settings.chosen_node_name, settings.cluster_name, chosen.pagerduty_routing_key.reveal())
        self.webhooks.start(options, sender)

    def _open_archive(self, directory: str) -> None:
        before = self.reprocessor.files
        if before is not None and str(before.root) == directory:
            return
        files = ArchiveFiles(Path(directory), self._broker.clock.wall, self._broker.dice.name) if directory else None
        if files is not None:
            try:
                files.open()
            except OSError as error:
                raise StartupError(f"the archive cannot be opened: {error.strerror}") from None
            self._archives.append(files)
        self.reprocessor.files = files


def plan_of(settings: Settings) -> Plan:
    chosen = settings.dead_letters
    return Plan(
        chosen.queues,
        chosen.every_s,
        chosen.archive_after_s,
        chosen.archive_exchange,
        chosen.archive_queue,
        bool(chosen.archive_dir),
        tuple(chosen.schedules.items()),
    )
