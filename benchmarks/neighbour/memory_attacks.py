"""What makes the broker keep much for one client. Each stops at some hundred MiB: the machine is to survive it."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

from benchmarks.neighbour.attack import Attack, Ground, Tally
from benchmarks.neighbour.link import FRAME_BODY, Refused, content, frame_of
from leveret.wire.basic_methods import BasicConsume, BasicConsumeOk, BasicPublish
from leveret.wire.method import Table
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk

QUEUE = "q"
BODY_CHANNELS = 60
BODY_ANNOUNCED = 128 * 1024 * 1024
BODY_SENT_MAX = 20 * 1024 * 1024
FRAME_BYTES = 120_000
CONSUMERS, CONSUMERS_A_CHANNEL = 4_000, 100
ARGUMENT_BYTES = 30_000


def _prepare(ground: Ground) -> None:
    with ground.link() as link:
        link.call(1, QueueDeclare(QUEUE), QueueDeclareOk)


def _announce_bodies(ground: Ground, tally: Tally, until: float) -> None:
    """Begins a body of 128 MiB on each channel and sends a part of it."""
    with ExitStack() as opened:
        link = opened.enter_context(ground.link())
        for channel in range(2, BODY_CHANNELS + 1):
            link.open_channel(channel)
        piece = b"x" * FRAME_BYTES
        # A broker that reads no more must not hold the attack.
        link.socket.settimeout(1.0)
        try:
            for channel in range(1, BODY_CHANNELS + 1):
                link.socket.sendall(content(channel, BasicPublish("", QUEUE), b"", b"", BODY_ANNOUNCED))
            for _ in range(BODY_SENT_MAX // FRAME_BYTES):
                for channel in range(1, BODY_CHANNELS + 1):
                    if time.monotonic() >= until:
                        return
                    link.socket.sendall(frame_of(FRAME_BODY, channel, piece))
                    tally.add()
        except (OSError, Refused):
            tally.refuse()
        _rest(until)


def _consume(ground: Ground, tally: Tally, until: float) -> None:
    """Consumers with large arguments, many on each channel."""
    arguments: Table = {"x-comment": b"x" * ARGUMENT_BYTES}
    with ExitStack() as opened:
        link = opened.enter_context(ground.link())
        with suppress(OSError):
            for number in range(CONSUMERS):
                if time.monotonic() >= until:
                    return
                channel = 1 + number // CONSUMERS_A_CHANNEL
                try:
                    if channel > 1 and number % CONSUMERS_A_CHANNEL == 0:
                        link.open_channel(channel)
                    link.call(channel, BasicConsume(QUEUE, f"c{number}", arguments=arguments), BasicConsumeOk)
                except Refused:
                    tally.refuse()
                    break
                tally.add()
        _rest(until)


def _rest(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


ATTACKS = (
    Attack("60 bodies of 128 MiB begun", "frames", _announce_bodies, _prepare),
    Attack("4,000 consumers with large arguments", "consumers", _consume, _prepare),
)
