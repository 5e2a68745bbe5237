"""The books of the jobs: the archive has every order, silver each id once, in quarantine if its body is bad, and the
table of letters all that died.

What died is told by the stream of dead letters itself, read without Spark: a producer that did not hear a confirm sends
again to a queue, which may take it twice. But none that was confirmed may be missing there."""

from __future__ import annotations

import re
import time

from msgspec.structs import replace

from leveret.client import blocking
from leveret.client.blocking import Connection
from leveret.client.topology import Queue
from tests.spark.exactly_once.findings import Findings
from tests.spark.exactly_once.ledger import Difference, Ledger
from tests.spark.exactly_once.places import LETTERS, SOURCE
from tests.spark.exactly_once.publisher import DEADLINE_S, Send, declare_streams, read_bodies
from tests.spark.exactly_once.shop import DYING, NUMBER_IN_BODY, is_bad, letter, order, original

__all__ = ["JobsBooks"]

# All of them die at once.
DEATH_S_MAX = 30.0


class JobsBooks:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.letters = Ledger()

    def declare(self, url: str) -> None:
        declare_streams(url)
        full, late = (Queue(name, dead_letter_exchange="", dead_letter_routing_key=LETTERS) for name in DYING)
        with blocking.connect(url) as connection:
            connection.topology.declare(
                Queue(LETTERS, queue_type="stream"), replace(full, max_length=0), replace(late, message_ttl_ms=0)
            )

    def open(self, connection: Connection) -> Send:
        orders = connection.producer(exchange=SOURCE, publishing_name="shop", deadline_s=DEADLINE_S)
        dying = connection.producer(exchange="", deadline_s=DEADLINE_S)

        def send(numbers: range) -> None:
            orders.publish_batch([order(number) for number in numbers])
            self.ledger.confirm(numbers)
            letters = {number: made for number in numbers if (made := letter(number))}
            dying.publish_batch(list(letters.values()))
            self.letters.confirm(letters)

        return send

    def wait_until_settled(self, url: str) -> None:
        until = time.monotonic() + DEATH_S_MAX
        while missing := self.letters.compare(self._dead(url)).missing:
            assert time.monotonic() < until, f"confirmed, and no dead letters: {missing}"
            time.sleep(0.1)

    def compare(self, url: str, findings: Findings) -> dict[str, Difference]:
        orders = self.ledger.ids
        wanted = {
            "archive": Ledger(orders),
            "silver/messages": Ledger(original(number) for number in orders if not is_bad(number)),
            "silver/quarantine": Ledger(original(number) for number in orders if is_bad(number)),
            # By their offsets.
            "silver/deadletters": Ledger(range(len(self._dead(url)))),
        }
        assert wanted.keys() == findings.ids.keys()
        return {name: ledger.compare(findings.ids[name]) for name, ledger in wanted.items()}

    def _dead(self, url: str) -> list[int]:
        found = [re.search(NUMBER_IN_BODY, body.decode()) for body in read_bodies(url, LETTERS)]
        return [int(one[1]) for one in found if one]
