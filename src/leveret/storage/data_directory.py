"""A data directory that a broker has for itself: locked, its catalog, manifest and log read, and what was torn or
damaged put in order. All of it blocks, before the loop runs; an error of the system ends the start with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leveret.errors import StartupError
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.damage import DamageReport
from leveret.storage.directory_salt import directory_salt_of
from leveret.storage.layout import Layout
from leveret.storage.reconcile import open_manifest
from leveret.storage.recovery import Recovery


class DataDirectory:
    def __init__(self, root: Path, new_salt: Callable[[], int]) -> None:
        self.layout = Layout(root)
        self.layout.refuse_unfinished()
        try:
            self.layout.make()
        except OSError as error:
            raise StartupError(f"cannot use the data directory {root}: {error.strerror}") from None
        try:
            self.lock = self.layout.lock()
        except OSError as error:
            raise StartupError(f"cannot lock the data directory {root}: {error}") from error
        try:
            self._read(new_salt)
        except BaseException as error:
            self.lock.release()
            if isinstance(error, OSError):
                raise StartupError(f"cannot read the data directory {root}: {error}") from error
            raise

    def _read(self, new_salt: Callable[[], int]) -> None:
        layout = self.layout
        self.report = DamageReport(layout)
        self.salt = directory_salt_of(layout, self.report, new_salt)
        self.catalog = CatalogLog(layout, self.salt)
        self.commands = self.catalog.load(self.report)
        self.manifest = open_manifest(layout, self.salt, self.report)
        self.recovered = Recovery(layout, self.salt, self.report, self.manifest).run()
        if not self.commands and self.recovered.segments:
            self.catalog.damaged = True
            self.report.add(layout.catalog, 0, 1, "the catalog is lost; its queues are made anew")
