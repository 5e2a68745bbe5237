"""Logins that fail, from many addresses: each costs the broker a hash."""

from __future__ import annotations

import threading
import time

from benchmarks.neighbour.attack import ATTACKER, Attack, Ground, Tally
from benchmarks.neighbour.link import Link, Refused

ADDRESSES, CONNECTIONS_EACH = 60, 6
LOGIN_DEADLINE_S = 30.0


def _storm(ground: Ground, tally: Tally, until: float) -> None:
    """All of 127.0.0.0/8 is this machine, so that there are many addresses. No name comes twice."""

    def work(number: int) -> None:
        source = f"127.0.1.{1 + number % ADDRESSES}"
        attempt = 0
        while time.monotonic() < until:
            attempt += 1
            try:
                with Link(ground.amqp_port, source, LOGIN_DEADLINE_S) as link:
                    link.log_in(f"nobody-{number}-{attempt}", "wrong", ATTACKER.vhost)
            except Refused:
                tally.add()
            except OSError:
                tally.refuse()
                time.sleep(0.01)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(ADDRESSES * CONNECTIONS_EACH)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()) + LOGIN_DEADLINE_S)


ATTACKS = (Attack("360 connections with a wrong password", "logins", _storm),)
