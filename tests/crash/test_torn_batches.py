"""The log cut anywhere after traffic with dead letters, retries and deduplication: a message and its move are both
there or both not, and so are a message and the key that tells its duplicates.

What must be there is known from the independent parser in corruption.py, which cuts back to the last whole batch."""

import os
import shutil
import time
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import pika
import pytest

from leveret.storage.recovery import Recovery
from leveret.testing import Broker
from tests.conformance.amqp_codec import decode_properties
from tests.crash.corruption import (
    DELAYED,
    MESSAGE,
    SEGMENT_BYTES,
    Opened,
    Record,
    Specimen,
    finished,
    keys_in,
    messages_in,
    open_directory,
)

_MESSAGES: Final = 160
_PERSISTENT: Final = 2
_DIGEST_BYTES: Final = 16
# The end of the log in which every record is cut at its boundaries and within.
_CUT_RECORDS: Final = 400 if "LEVERET_CRASH_CYCLES" in os.environ else 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    """The directory of a broker that is still working: nothing is flushed for the copy."""
    root = tmp_path_factory.mktemp("torn")
    with Broker({"data_dir": str(root / "data"), "storage.segment_bytes": SEGMENT_BYTES}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        _declare(connection.channel())
        _work(connection)
        # Everything is on its way by then, and written.
        time.sleep(0.5)
        shutil.copytree(root / "data", root / "copy")
        connection.close()
    return Specimen.of(root / "copy")


def _declare(channel: Any) -> None:
    channel.exchange_declare("once", "x-message-deduplication", durable=True, arguments={"x-cache-size": 100000})
    for name in ("dead", "routed", "parked"):
        channel.queue_declare(name, durable=True)
    channel.queue_bind("routed", "once")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", durable=True, arguments=letters)
    channel.queue_declare("short", durable=True, arguments=letters | {"x-max-length": 5})
    channel.queue_declare("once", durable=True, arguments={"x-message-deduplication": True, "x-cache-size": 100000})
    # A retry that does not come to an end here: both copies of a message would be seen.
    retry = {"x-retry-delays": "1h", "x-parking-lot": "parked"}
    channel.queue_declare("retried", durable=True, arguments=retry)


def _work(connection: pika.BlockingConnection) -> None:
    publishing, working = connection.channel(), connection.channel()
    for number in range(_MESSAGES):
        filler = b"x" * (number * 37 % 500)
        properties = pika.BasicProperties(delivery_mode=_PERSISTENT, message_id=f"id-{number}")
        for queue in ("work", "short", "once", "retried"):
            publishing.basic_publish("", queue, b"%s-%06d|" % (queue.encode(), number) + filler, properties)
        publishing.basic_publish("once", "", b"routed-%06d" % number, properties)
        if number % 3 == 2:
            # A duplicate of each kind, and some rejections in one batch.
            publishing.basic_publish("", "once", b"again", properties)
            publishing.basic_publish("once", "", b"again", properties)
            for queue in ("work", "work", "retried", "retried"):
                got, _, _ = working.basic_get(queue)
                working.basic_reject(got.delivery_tag, requeue=False)


class Cut(NamedTuple):
    """The log ends here: the octet within a segment, and none of the segments behind it exist."""

    file: str
    number: int
    at: int

    def left(self, specimen: Specimen) -> list[Record]:
        """The records that are whole."""
        return [
            it for it in specimen.log if it.number < self.number or (it.number == self.number and it.end <= self.at)
        ]

    def changes(self, specimen: Specimen) -> dict[str, bytes | None]:
        gone = [name for name in specimen.segments if name > self.file]
        # An index is written when everything in its segment is synced: no crash leaves one before what is torn.
        indexes = [specimen.index_of(name) for name in specimen.segments]
        return {self.file: specimen.files[self.file][: self.at]} | dict.fromkeys(gone + indexes)


def cuts_of(specimen: Specimen) -> list[Cut]:
    """Every start of a record, and within it, at the end of the log; and every 50th before."""
    records = specimen.log[-_CUT_RECORDS:] + specimen.log[:-_CUT_RECORDS:50]
    return [
        Cut(record.file, record.number, at)
        for record in records
        for at in (record.offset, record.offset + 17, record.end - 1)
    ]


def digest_of(record: Record) -> bytes:
    message_id = decode_properties(record.properties)["message_id"]
    assert isinstance(message_id, str)
    return blake2b(message_id.encode(), digest_size=_DIGEST_BYTES).digest()


def findings(specimen: Specimen, left: list[Record], opened: Opened) -> list[str]:
    """What is wrong with a directory whose log had these records in whole batches."""
    ids = {name.partition("|")[2]: number for name, number in specimen.queue_ids.items()}
    kept = {name: opened.messages.get(number, []) for name, number in ids.items()}
    bodies = {name: {it.body for it in found} for name, found in kept.items()}
    sent = {name: {it.body for it in left for queue, _ in it.targets if queue == ids[name]} for name in ids}
    wrong = []
    for source in ("work", "short"):
        wrong += [f"twice: {body[:16]!r}" for body in bodies[source] & bodies["dead"]]
        wrong += [f"lost: {body[:16]!r}" for body in sent[source] - bodies[source] - bodies["dead"]]
    waiting = sum(it.position >= DELAYED for it in kept["retried"])
    if len(kept["retried"]) != len(sent["retried"]):
        wrong.append(f"retried: {len(kept['retried'])} of {len(sent['retried'])}, {waiting} of them wait")
    for owner, queue in ((ids["once"], ids["once"]), (_exchange_id(opened), ids["routed"])):
        digests = {digest_of(it) for it in left for target, _ in it.targets if target == queue}
        placed = len(opened.messages.get(queue, []))
        if opened.keys.get(owner, set()) != digests or placed != len(digests):
            wrong.append(f"keys: {len(opened.keys.get(owner, ()))} for {placed} messages, {len(digests)} expected")
    return wrong


def _exchange_id(opened: Opened) -> int:
    ids = set(opened.queue_ids.values())
    return next((owner for owner in opened.keys if owner not in ids), 0)


def judge_cuts(specimen: Specimen) -> None:
    ids = set(specimen.queue_ids.values())
    for number, cut in enumerate(cuts_of(specimen)):
        left = finished(cut.left(specimen))
        with specimen.opened(cut.changes(specimen)) as opened:
            assert findings(specimen, left, opened) == [], f"{cut}"
            assert opened.messages == messages_in(left, ids), f"{cut}"
            assert opened.keys == keys_in(left), f"{cut}"
            assert opened.damages == [], "a torn end is no damage"
            if number % 8 == 0:
                again = open_directory(opened.root)
                assert (again.messages, again.keys) == (opened.messages, opened.keys), f"the second start, {cut}"


def test_the_specimen_is_worth_cutting(torn: Specimen) -> None:
    ends = torn.log[-_CUT_RECORDS:]
    assert sum(record.kind == MESSAGE for record in ends) > 20
    assert any(what == 2 for record in ends for _, _, _, _, what in record.notes), "nothing moved here"
    assert any(record.keys for record in ends)
    assert len(torn.segments) > 1
    assert sum(map(len, keys_in(torn.log).values())) == 2 * _MESSAGES


def test_the_log_is_cut_anywhere(torn: Specimen) -> None:
    judge_cuts(torn)


def test_cuts_find_a_batch_that_is_not_whole(torn: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: who takes every good record for itself finds messages in two queues, and some without a key."""
    monkeypatch.setattr(Recovery, "_drop_unfinished", lambda *_: None)
    kinds = set()
    for cut in cuts_of(torn)[::3]:
        with torn.opened(cut.changes(torn)) as opened:
            wrong = findings(torn, finished(cut.left(torn)), opened)
            kinds |= {finding.partition(":")[0] for finding in wrong}
    assert kinds == {"twice", "retried", "keys"}
