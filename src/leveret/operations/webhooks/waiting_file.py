"""Alerts that wait to be posted, in a file, so that neither a restart nor a crash forgets them.

The file is replaced as a whole and synced, in a thread of its own; changes that come meanwhile are in the next one. It
has the SHA-256 of each address instead of the address, which may hold a token. Never decides what is sent. Used by the
webhooks only."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from leveret.core.log.records import checksum
from leveret.errors import StartupError
from leveret.operations.reprocess.spec import Alert
from leveret.runtime.files import SHORTAGES, replace_file, sync_directory
from leveret.runtime.log import get_logger
from leveret.runtime.threads import started_pool

log = get_logger(__name__)

HEAD: Final = b"leveret alerts, version 1, sum "
# More is not read: the broker itself writes far less.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# How soon a write that failed is tried again.
RETRY_S: Final = 5.0
DAMAGED: Final = ".damaged"


@dataclass
class Waiting:
    id: str
    alert: Alert


class Kept(msgspec.Struct, frozen=True):
    """One alert in the file. `to` are the addresses, as `address_digest` has them."""

    id: str
    alert: Alert
    to: list[str]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Kept])

# What waits now, by address.
Snapshot = Callable[[], Iterable[tuple[str, Iterable[Waiting]]]]


class WaitingFile:
    """`snapshot` is asked on the loop, whenever something has changed and the last write has ended."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        self._path = path
        self._snapshot = snapshot
        self._thread: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        # Whether the file lacks something that has happened since it was begun.
        self._stale = False
        self._failing = False

    @property
    def is_open(self) -> bool:
        return self._thread is not None

    def open(self) -> dict[str, list[Waiting]]:
        """What an earlier life of the broker left, by the digest of its address. Raises StartupError."""
        try:
            kept = self._read()
            self._thread = started_pool("leveret-alerts")
        except OSError as error:
            raise StartupError(f"the alerts that wait in {self._path} cannot be read: {error.strerror}") from None
        found: dict[str, list[Waiting]] = {}
        for one in kept:
            for digest in one.to:
                found.setdefault(digest, []).append(Waiting(one.id, one.alert))
        return found

    def changed(self) -> None:
        """Something waits that did not, or the other way round. Never waits for the disk."""
        self._stale = True
        if self._task is None and self.is_open:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> bool:
        """Whether the file has all that waits now. The last write begins anew, without a pause."""
        if self._thread is None:
            return False
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        thread, self._thread = self._thread, None
        try:
            if self._stale:
                await asyncio.get_running_loop().run_in_executor(thread, self._write, self._encoded())
        except OSError as error:
            log.error("the alerts that wait cannot be kept", file=str(self._path), error=error.strerror)
            return False
        finally:
            thread.shutdown(wait=False)
        return True

    # ---- its task

    async def _work(self) -> None:
        try:
            while self._stale:
                self._stale = False
                try:
                    await self._replace()
                except OSError as error:
                    self._stale = True
                    if not self._failing:
                        log.error("the alerts that wait cannot be kept", file=str(self._path), error=error.strerror)
                    self._failing = True
                    await asyncio.sleep(RETRY_S)
                except asyncio.CancelledError:
                    self._stale = True
                    raise
                else:
                    self._failing = False
        finally:
            self._task = None

    async def _replace(self) -> None:
        # Shielded: the thread writes on, even if the waiting task is cancelled; a later write is behind it in the same
        # thread.
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._write, self._encoded())
        await asyncio.shield(work)

    def _encoded(self) -> bytes:
        kept: dict[str, Kept] = {}
        for url, line in self._snapshot():
            digest = address_digest(url)
            for waiting in line:
                kept.setdefault(waiting.id, Kept(waiting.id, waiting.alert, [])).to.append(digest)
        body = _encoder.encode(list(kept.values()))
        return HEAD + f"{checksum(body):08x}\n".encode() + body

    # ---- the file

    def _write(self, data: bytes) -> None:
        if not self._path.parent.exists():
            self._path.parent.mkdir(mode=0o700)
            sync_directory(self._path.parent.parent)
        replace_file(self._path, data)

    def _read(self) -> list[Kept]:
        """What the file has; a file that is damaged, or that the disk cannot read, is set aside with a word."""
        try:
            if self._path.stat().st_size > FILE_BYTES_MAX:
                return self._set_aside("it is too large")
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            if error.errno in SHORTAGES or isinstance(error, PermissionError):
                raise
            return self._set_aside(str(error.strerror))
        head, _, body = data.partition(b"\n")
        if head != HEAD + f"{checksum(body):08x}".encode():
            return self._set_aside("its checksum is wrong")
        try:
            return _decoder.decode(body)
        except msgspec.MsgspecError as error:
            return self._set_aside(str(error))

    def _set_aside(self, why: str) -> list[Kept]:
        aside = self._path.with_name(self._path.name + DAMAGED)
        self._path.rename(aside)
        log.error("alerts that waited are lost: their file is damaged", file=str(aside), error=why)
        return []


def address_digest(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()
