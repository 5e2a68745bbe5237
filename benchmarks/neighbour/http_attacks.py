"""Requests to the management API that cost the broker more than their client."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from urllib.parse import quote

from benchmarks.neighbour.attack import ATTACKER, Attack, Ground, Tally
from benchmarks.neighbour.link import content
from leveret.core.codec.properties import encode_properties
from leveret.wire.basic_methods import BasicPublish
from leveret.wire.exchange_methods import ExchangeDeclare, ExchangeDeclareOk
from leveret.wire.method import Table
from leveret.wire.queue_methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk

VHOST = quote(ATTACKER.vhost, "")
# Backtracks for ever over a long name that it does not match.
LOOK_AHEADS = "^.*.*" + "(?=.*" * 20 + "!" + ")" * 20 + "$"
LONG_NAME = "a" * 200
LETTERS, LETTER_QUEUES, SURVEYS_AT_ONCE = 150, 200, 20
PEEKERS, PEEKED_BYTES = 30, 1024 * 1024
PEEKED = 32
HALF_OPEN = 2_000


def _prepare_names(ground: Ground) -> None:
    with ground.link() as link:
        for number in range(20):
            link.call(1, QueueDeclare(f"{LONG_NAME}{number}"), QueueDeclareOk)


def _match_names(ground: Ground, tally: Tally, until: float) -> None:
    path = f"/api/queues?page=1&use_regex=true&name={quote(LOOK_AHEADS, '')}"
    _ask_until(ground, tally, until, path, clients=2)


def _prepare_letters(ground: Ground) -> None:
    """Each message dies in one queue and is a dead letter in 200 others."""
    with ground.link() as link:
        link.call(1, ExchangeDeclare("letters", "fanout"), ExchangeDeclareOk)
        for number in range(LETTER_QUEUES):
            link.call(1, QueueDeclare(f"letters-{number}"), QueueDeclareOk)
            link.call(1, QueueBind(f"letters-{number}", "letters"), QueueBindOk)
        arguments: Table = {"x-dead-letter-exchange": "letters", "x-message-ttl": 0}
        link.call(1, QueueDeclare("mortal", arguments=arguments), QueueDeclareOk)
        headers = encode_properties(headers={f"header-{number}": "x" * 20 for number in range(20)})
        link.socket.sendall(content(1, BasicPublish("", "mortal"), headers, b"x") * LETTERS)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if link.call(1, QueueDeclare("letters-0"), QueueDeclareOk).message_count >= LETTERS:
                return
            time.sleep(0.02)
        raise RuntimeError("the dead letters did not come within 30 s")


def _survey_letters(ground: Ground, tally: Tally, until: float) -> None:
    _ask_until(ground, tally, until, "/api/dead-letters", SURVEYS_AT_ONCE)


def _ask_until(ground: Ground, tally: Tally, until: float, path: str, clients: int) -> None:
    def work() -> None:
        while time.monotonic() < until:
            try:
                status, _ = ground.ask(path)
            except OSError:
                tally.refuse()
                continue
            tally.add()
            if status != 200:
                tally.refuse()
                # What is refused at once is not asked for in a loop of the attacker's own processor.
                time.sleep(0.01)

    _side_by_side(clients, work)


def _prepare_peeks(ground: Ground) -> None:
    with ground.link() as link:
        link.call(1, QueueDeclare("large"), QueueDeclareOk)
        body = b"x" * (PEEKED_BYTES // 10)
        for _ in range(PEEKED * 10):
            link.socket.sendall(content(1, BasicPublish("", "large"), b"", body))
        link.call(1, QueueDeclare("barrier"), QueueDeclareOk)
        link.call(1, QueueDelete("barrier"), QueueDeleteOk)


def _peek_unread(ground: Ground, tally: Tally, until: float) -> None:
    """Asks for all messages of a queue and does not read the answer."""
    request = _request(f"/api/queues/{VHOST}/large/peek?count=1000&encoding=base64")
    with ExitStack() as opened:
        for _ in range(PEEKERS):
            if (client := _connected(ground, tally)) is None:
                continue
            opened.enter_context(client)
            with suppress(OSError):
                client.sendall(request)
                tally.add()
        time.sleep(max(0.0, until - time.monotonic()))


def _open_halves(ground: Ground, tally: Tally, until: float) -> None:
    """Sends all of a request but its body; opens another one for each that the broker closes."""
    begun = _request(f"/api/queues/{VHOST}/q", "PUT", "Content-Length: 1000\r\n")
    with ExitStack() as opened:
        held: list[socket.socket] = []
        while time.monotonic() < until:
            while len(held) < HALF_OPEN and time.monotonic() < until:
                if (client := _connected(ground, tally)) is None:
                    break
                opened.enter_context(client)
                with suppress(OSError):
                    client.sendall(begun)
                    tally.add()
                held.append(client)
            held = [client for client in held if not _is_closed(client)]
            time.sleep(0.02)


def _request(path: str, method: str = "GET", headers: str = "") -> bytes:
    login = f"Authorization: {ATTACKER.authorization}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: broker\r\n{login}{headers}\r\n".encode()


def _connected(ground: Ground, tally: Tally) -> socket.socket | None:
    try:
        return socket.create_connection(("127.0.0.1", ground.management_port), 1.0)
    except OSError:
        tally.refuse()
        return None


def _is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _side_by_side(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


ATTACKS = (
    Attack("look-aheads in ?use_regex=true", "requests", _match_names, _prepare_names),
    Attack("20 x /api/dead-letters", "requests", _survey_letters, _prepare_letters),
    Attack("30 unread peeks", "requests", _peek_unread, _prepare_peeks),
    Attack("2,000 requests without their body", "requests", _open_halves),
)
