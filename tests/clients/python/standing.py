"""What the programs of this folder share: running a scenario, and publishing while the driver disturbs the broker."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 30.0
SENT_AFTER = 20
Scenario = Callable[[str, str], Awaitable[dict[str, Any]]]


def show(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(scenarios: dict[str, Scenario]) -> None:
    """Runs the scenario that the command line names, with the broker's address and a name for what it declares."""
    scenario, url, name = sys.argv[1:4]
    show(asyncio.run(scenarios[scenario](url, name)))


async def until(condition: Callable[[], bool]) -> bool:
    """Waits for something to become true; whether it did in time."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    # What it waits for is the client's, which has no event for it.
    while not condition() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return condition()


async def send_throughout(send: Callable[[str], Awaitable[Any]]) -> list[str]:
    """Sends, again until that succeeds, some before the disturbance, whatever goes meanwhile, and as many after it as
    agreed. The disturbance begins when the driver reads "ready"; it writes a line when the broker serves again."""
    calm = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    sent: list[str] = []
    after = 0
    while after < SENT_AFTER:
        is_after = calm.done()
        await _sent(send, str(len(sent)))
        sent.append(str(len(sent)))
        after += is_after
        if len(sent) == 20:
            show({"event": "ready"})
        await asyncio.sleep(0.02)
    return sent


async def _sent(send: Callable[[str], Awaitable[Any]], body: str) -> None:
    while True:
        try:
            async with asyncio.timeout(5):
                await send(body)
            return
        # Whatever the client raises while its connection is away.
        except Exception as error:  # noqa: BLE001
            sys.stderr.write(f"{body}: {error!r}\n")
            await asyncio.sleep(0.1)
