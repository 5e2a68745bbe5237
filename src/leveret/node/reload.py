"""Reading the configuration again while the node runs, when SIGHUP asks for it.

What can change takes effect; what cannot is named and keeps its value until a restart. A configuration that cannot be
used changes nothing. Settings say themselves whether they are `live`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from leveret.errors import LeveretError
from leveret.node.config.declaring import declarations
from leveret.node.config.loading import assembled, values_of
from leveret.node.config.settings import Settings
from leveret.runtime.log import get_logger

log = get_logger(__name__)


class Changes(NamedTuple):
    """`settings` are those in use with what may change of the new ones; `live` and `waiting` are keys."""

    settings: Settings
    live: list[str]
    waiting: list[str]


def changes(current: Settings, new: Settings) -> Changes:
    values, wanted = values_of(current), values_of(new)
    differing = [key for key in values if values[key] != wanted[key]]
    live = [key for key in differing if declarations()[key].live]
    for key in live:
        values[key] = wanted[key]
    return Changes(assembled(values), live, [key for key in differing if key not in live])


class Reloader:
    """Does what a SIGHUP asks for. Files are read in a thread, so that a slow disk holds nobody up."""

    def __init__(
        self,
        current: Callable[[], Settings],
        read: Callable[[], Settings],
        apply: Callable[[Settings], list[str]],
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`current` gives the settings in use, `read` what the configuration says now, and `apply` takes it over and
        returns the keys that changed. `reloading` is entered for the time of each reload."""
        self._current = current
        self._read = read
        self._apply = apply
        self._reloading = reloading
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def ask(self) -> None:
        """The handler of the signal. Whoever asks while the files are being read is served afterwards."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._again:
            self._again = False
            with self._reloading():
                await self.reload()

    async def reload(self) -> None:
        try:
            settings = await asyncio.to_thread(self._read)
            waiting = changes(self._current(), settings).waiting
            changed = self._apply(settings)
        except LeveretError as error:
            for line in str(error).splitlines():
                log.error(f"the configuration cannot be used, everything stays as it is: {line}")
            return
        except Exception:
            log.exception("the configuration could not be read again")
            return
        log.info(f"configuration read again; changed: {', '.join(changed) or 'nothing'}")
        if waiting:
            log.warning(f"configuration read again; needs a restart: {', '.join(waiting)}")
