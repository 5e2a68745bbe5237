"""The decent client, in a process of its own: 200 small messages a second, and what each of them waited.

    python -m benchmarks.neighbour.decent AMQP_PORT MANAGEMENT_PORT SECONDS RATE

Prints `ready`, waits for a line, and at the end prints its figures as JSON. Times count from the moment at which a
message was due to be sent, so that a stalled broker is charged for all that should have been sent meanwhile. Beside the
messages it logs in anew and asks for /health/ready, again and again."""

from __future__ import annotations

import http.client
import json
import select
import struct
import sys
import threading
import time
from collections.abc import Callable

from benchmarks.neighbour.attack import DECENT, NEWCOMERS
from benchmarks.neighbour.link import FRAME_BODY, FRAME_METHOD, Link, Refused, content
from leveret.core.codec.properties import encode_properties
from leveret.wire.basic_methods import BasicAck, BasicConsume, BasicConsumeOk, BasicNack, BasicPublish
from leveret.wire.codec import decode_method
from leveret.wire.confirm_methods import ConfirmSelect, ConfirmSelectOk
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk

# One message in four is persistent, to a durable queue: its confirm waits for the disk. The others show the round trip.
PERSISTENT_EVERY = 4
# How long after its last message it waits for what is missing.
GRACE_S = 20.0
PROBE_PAUSE_S = 0.2
PROBE_DEADLINE_S = 15.0
TRANSIENT, DURABLE = "transient", "durable"
PERSISTENT = encode_properties(delivery_mode=2)


class Probe:
    """Does the same again and again in a thread, and notes how long each time took and how often it failed."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.waits_s: list[float] = []
        self.failures = 0
        self._action = action
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(PROBE_PAUSE_S):
            begun = time.monotonic()
            try:
                self._action()
            except (OSError, Refused, http.client.HTTPException):
                self.failures += 1
            self.waits_s.append(time.monotonic() - begun)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(PROBE_DEADLINE_S + 1)


class Decent:
    def __init__(self, port: int) -> None:
        self._link = Link(port).log_in(DECENT.name, DECENT.password, DECENT.vhost)
        self._link.open_channel(1)
        self._link.call(1, ConfirmSelect(), ConfirmSelectOk)
        self._link.call(1, QueueDeclare(TRANSIENT, exclusive=True), QueueDeclareOk)
        self._link.call(1, QueueDeclare(DURABLE, durable=True), QueueDeclareOk)
        self._link.call(1, BasicConsume(TRANSIENT, no_ack=True), BasicConsumeOk)
        self._link.call(1, BasicConsume(DURABLE, no_ack=True), BasicConsumeOk)
        # When what is under way was due, by its number, which is its delivery tag for confirms.
        self._undelivered: dict[int, float] = {}
        self._unconfirmed: dict[int, float] = {}
        self.round_trips_s: list[float] = []
        self.confirms_s: list[float] = []

    def run(self, seconds: float, rate: int) -> int:
        """Sends all that is due and takes what comes; how many were missing at the end."""
        begun = time.monotonic()
        count = int(seconds * rate)
        end = begun + seconds + GRACE_S
        number = 0
        while time.monotonic() < end and (number < count or self._undelivered or self._unconfirmed):
            now = time.monotonic()
            while number < count and now >= begun + number / rate:
                self._publish(number + 1, begun + number / rate)
                number += 1
            pause = max(0.0, begun + number / rate - time.monotonic()) if number < count else 0.05
            if select.select([self._link.socket], [], [], pause)[0]:
                self._receive()
        missing = len(set(self._undelivered) | set(self._unconfirmed))
        now = time.monotonic()
        self.round_trips_s += [now - due for due in self._undelivered.values()]
        self.confirms_s += [now - due for number, due in self._unconfirmed.items() if _is_persistent(number)]
        return missing

    def _publish(self, number: int, due: float) -> None:
        persistent = _is_persistent(number)
        queue, properties = (DURABLE, PERSISTENT) if persistent else (TRANSIENT, b"")
        self._unconfirmed[number] = due
        if not persistent:
            self._undelivered[number] = due
        self._link.socket.sendall(content(1, BasicPublish("", queue), properties, struct.pack(">Q", number)))

    def _receive(self) -> None:
        """Everything that has come."""
        while True:
            kind, _, payload = self._link.frame()
            now = time.monotonic()
            if kind == FRAME_BODY:
                due = self._undelivered.pop(struct.unpack(">Q", payload)[0], None)
                if due is not None:
                    self.round_trips_s.append(now - due)
            elif kind == FRAME_METHOD:
                self._settle(payload, now)
            if not self._link.has_more():
                return

    def _settle(self, payload: bytes, now: float) -> None:
        method_id = int.from_bytes(payload[:4], "big")
        if method_id not in (BasicAck.METHOD, BasicNack.METHOD):
            return
        method = decode_method(method_id, payload[4:])
        assert isinstance(method, BasicAck | BasicNack)
        tag = method.delivery_tag
        settled = [number for number in self._unconfirmed if number <= tag] if method.multiple else [tag]
        for number in settled:
            due = self._unconfirmed.pop(number, None)
            if due is not None and _is_persistent(number):
                self.confirms_s.append(now - due)


def _is_persistent(number: int) -> bool:
    return number % PERSISTENT_EVERY == 0


def _log_in(port: int, name: str) -> None:
    with Link(port, deadline_s=PROBE_DEADLINE_S) as link:
        link.log_in(name, DECENT.password, DECENT.vhost)


def _ask_health(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_DEADLINE_S)
    try:
        connection.request("GET", "/health/ready")
        connection.getresponse().read()
    finally:
        connection.close()


def main(words: list[str]) -> int:
    amqp_port, management_port, seconds, rate = int(words[0]), int(words[1]), float(words[2]), int(words[3])
    decent = Decent(amqp_port)
    print("ready", flush=True)
    sys.stdin.readline()
    newcomers = iter(NEWCOMERS)
    logins = Probe(lambda: _log_in(amqp_port, next(newcomers)))
    health = Probe(lambda: _ask_health(management_port))
    missing, died = 0, ""
    try:
        missing = decent.run(seconds, rate)
    except (Refused, OSError) as error:
        died = str(error) or type(error).__name__
    logins.stop()
    health.stop()
    figures = {
        "round_trips_s": decent.round_trips_s,
        "confirms_s": decent.confirms_s,
        "logins_s": logins.waits_s,
        "logins_failed": logins.failures,
        "health_s": health.waits_s,
        "health_failed": health.failures,
        "missing": missing,
        "died": died,
    }
    print(json.dumps(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
