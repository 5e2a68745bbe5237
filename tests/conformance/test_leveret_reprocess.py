"""Reprocessing: dead letters go back to where they came from, or elsewhere, and what is not meant stays as it was.
RabbitMQ has nothing like it but shovels."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from leveret.catalog.records import ReplayArchive, ReplayFilter
from leveret.errors import InvalidReplay, ReplayConflict, ReplayNotFound
from leveret.operations.reprocess.spec import JobView, ReplaySpec
from leveret.testing import Broker
from tests.conformance.raw_client import Method, RawClient
from tests.conformance.topology import drain, wait_for

SHOP, ORDERS, GRAVE, KEY = "shop", "orders", "grave", "new"


class Yard:
    """A broker with an exchange, a queue of orders bound to it, and a grave for orders that were rejected."""

    def __init__(self, stack: ExitStack, data_dir: Path, **settings: object) -> None:
        self.broker = stack.enter_context(Broker({"data_dir": str(data_dir), **settings}))
        self.stack = stack
        self.client = self.publisher()
        self.client.call(1, "exchange.declare", exchange=SHOP, type="direct", durable=True)
        to_grave = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": GRAVE}
        self.client.call(1, "queue.declare", queue=ORDERS, durable=True, arguments=to_grave)
        self.client.call(1, "queue.bind", queue=ORDERS, exchange=SHOP, routing_key=KEY)
        self.client.call(1, "queue.declare", queue=GRAVE, durable=True)

    def connected(self) -> RawClient:
        client = self.stack.enter_context(RawClient(self.broker.host, self.broker.port)).log_in()
        client.open_channel(1)
        return client

    def publisher(self) -> RawClient:
        client = self.connected()
        client.call(1, "confirm.select")
        return client

    def restart(self) -> None:
        self.broker.stop()
        self.broker.start()
        self.client = self.publisher()

    def publish(self, *bodies: bytes, key: str = KEY, exchange: str = SHOP, **properties: Any) -> None:
        for body in bodies:
            self.client.publish(1, exchange, key, body, {"delivery_mode": 2, **properties})
        confirmed = 0
        while confirmed < len(bodies):
            ack = self.client.expect(1, "basic.ack")
            confirmed += 1 if not ack["multiple"] else len(bodies)

    def bury(self, *bodies: bytes, **properties: Any) -> None:
        """Publishes orders and rejects them; returns when all are in the grave."""
        before = self.count(GRAVE)
        client = self.connected()
        client.call(1, "confirm.select")
        for body in bodies:
            client.publish(1, SHOP, KEY, body, {"delivery_mode": 2, **properties})
        wait_for("orders", lambda: self.count(ORDERS) >= len(bodies))
        self.kill_orders(len(bodies))
        wait_for("burials", lambda: self.count(GRAVE) == before + len(bodies))

    def kill_orders(self, count: int) -> None:
        client = self.connected()
        client.call(1, "basic.consume", queue=ORDERS)
        for _ in range(count):
            tag = client.expect(1, "basic.deliver")["delivery_tag"]
        client.send(1, "basic.nack", delivery_tag=tag, multiple=True, requeue=False)
        client.call(1, "channel.close")

    def count(self, queue: str) -> int:
        counted: int = self.broker.call(lambda node: node.broker.vhosts["/"].queues[queue.encode()].ready_count())
        return counted

    def letters(self, queue: str) -> list[Method]:
        """Everything in the queue, taken out."""
        found = []
        while (method := self.client.call(1, "basic.get", queue=queue, no_ack=True)).name == "basic.get-ok":
            found.append(method)
        return found

    def bodies(self, queue: str) -> list[bytes]:
        return [letter.body for letter in self.letters(queue)]

    # ---- jobs

    def start(self, queue: str = GRAVE, **spec: Any) -> JobView:
        return self.broker.call(lambda node: node.reprocessor.start("/", queue, ReplaySpec(**spec)))

    def job(self, id: str) -> JobView:
        return self.broker.call(lambda node: node.reprocessor.job(id))

    def ended(self, id: str) -> JobView:
        wait_for(f"the end of job {id}", lambda: self.job(id).state != "running")
        return self.job(id)

    def run(self, queue: str = GRAVE, **spec: Any) -> JobView:
        return self.ended(self.start(queue, **spec).id)


@pytest.fixture
def make_yard(tmp_path: Path) -> Iterator[Callable[..., Yard]]:
    with ExitStack() as stack:
        yield lambda **settings: Yard(stack, tmp_path / "data", **settings)


@pytest.fixture
def yard(make_yard: Callable[..., Yard]) -> Yard:
    return make_yard()


def counters(job: JobView) -> tuple[int, int, int, int]:
    return job.matched, job.moved, job.skipped, job.failed


def headers_of(letter: Method) -> dict[str, Any]:
    headers: dict[str, Any] = letter.properties.get("headers", {})
    return headers


# ---- where they go


def test_dead_letters_go_back_to_their_exchange_and_key(yard: Yard) -> None:
    yard.bury(b"1", b"2", b"3", headers={"mine": "a", "x-retry-count": 2}, message_id="m")
    began = time.time()
    job = yard.run()
    assert (job.state, counters(job), job.remaining, job.last_error) == ("done", (3, 3, 0, 0), 0, "")
    assert job.ended_ms >= job.created_ms
    letters = yard.letters(ORDERS)
    assert [(letter.body, letter["exchange"], letter["routing_key"]) for letter in letters] == [
        (body, SHOP, KEY) for body in (b"1", b"2", b"3")
    ]
    headers = headers_of(letters[0])
    assert {name: headers[name] for name in ("mine", "x-replay-count")} == {"mine": "a", "x-replay-count": 1}
    assert set(headers) == {"mine", "x-replay-count", "x-first-death-time"}
    assert abs(headers["x-first-death-time"] - began) < 60
    assert letters[0].properties["message_id"] == "m"
    assert not letters[0]["redelivered"]
    assert yard.count(GRAVE) == 0


def test_replays_are_counted_and_the_first_death_is_remembered(yard: Yard) -> None:
    yard.bury(b"1")
    for _ in range(2):
        yard.run()
        yard.kill_orders(1)
        wait_for("the burial", lambda: yard.count(GRAVE) == 1)
    (letter,) = yard.letters(GRAVE)
    headers = headers_of(letter)
    assert (headers["x-replay-count"], len(headers["x-death"])) == (2, 1)
    assert headers["x-first-death-time"] <= headers["x-death"][0]["time"]


def test_dead_letters_go_back_to_their_queue_although_nothing_leads_there(yard: Yard) -> None:
    yard.bury(b"1")
    yard.client.call(1, "queue.unbind", queue=ORDERS, exchange=SHOP, routing_key=KEY)
    job = yard.run(to="origin-queue")
    assert (job.state, counters(job)) == ("done", (1, 1, 0, 0))
    (letter,) = yard.letters(ORDERS)
    assert (letter["exchange"], letter["routing_key"]) == ("", ORDERS)


def test_messages_go_to_a_given_target_dead_or_not(yard: Yard) -> None:
    yard.bury(b"dead")
    yard.publish(b"alive", exchange="", key=GRAVE)
    yard.client.call(1, "queue.declare", queue="other", durable=True)
    job = yard.run(to="target", exchange="", routing_key="other")
    assert counters(job) == (2, 2, 0, 0)
    letters = yard.letters("other")
    assert [letter.body for letter in letters] == [b"dead", b"alive"]
    assert headers_of(letters[1]) == {"x-replay-count": 1}


def test_a_consumer_gets_what_is_replayed_at_once(yard: Yard) -> None:
    yard.bury(b"1", b"2")
    consumer = yard.connected()
    consumer.call(1, "basic.consume", queue=ORDERS, no_ack=True)
    yard.run()
    assert [consumer.expect(1, "basic.deliver").body for _ in range(2)] == [b"1", b"2"]


# ---- what stays


def test_what_cannot_be_routed_stays_as_it_was(yard: Yard) -> None:
    yard.bury(b"1", b"2")
    yard.publish(b"never dead", exchange="", key=GRAVE)
    yard.client.call(1, "queue.unbind", queue=ORDERS, exchange=SHOP, routing_key=KEY)
    job = yard.run()
    assert (job.state, counters(job)) == ("done", (3, 0, 0, 3))
    assert job.last_error == "its headers do not tell where it died"
    assert yard.run(limit=1).last_error == f"no queue is reached by exchange '{SHOP}' and key '{KEY}'"
    yard.client.call(1, "exchange.delete", exchange=SHOP)
    assert yard.run(limit=1).last_error == f"there is no exchange '{SHOP}'"
    letters = yard.letters(GRAVE)
    assert [(letter.body, letter["redelivered"]) for letter in letters] == [
        (body, False) for body in (b"1", b"2", b"never dead")
    ]
    assert "x-death" in headers_of(letters[0])


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_what_a_full_queue_refuses_stays_and_does_not_multiply(yard: Yard, overflow: str) -> None:
    full = {
        "x-max-length": 1,
        "x-overflow": overflow,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": GRAVE,
    }
    yard.client.call(1, "queue.declare", queue="full", durable=True, arguments=full)
    yard.bury(b"1", b"2", b"3")
    job = yard.run(to="target", routing_key="full")
    assert (counters(job), job.last_error) == ((3, 1, 0, 2), "queue 'full' is full")
    time.sleep(0.1)
    assert (yard.bodies("full"), yard.bodies(GRAVE)) == ([b"1"], [b"2", b"3"])


def test_a_dry_run_changes_nothing(yard: Yard) -> None:
    yard.bury(b"1", b"2", b"3")
    yard.client.call(1, "basic.get", queue=GRAVE)
    yard.client.send(1, "basic.nack", delivery_tag=1, requeue=True)
    wait_for("the requeue", lambda: yard.count(GRAVE) == 3)
    job = yard.run(dry_run=True, filter=ReplayFilter(body_contains=b"2"))
    assert (job.state, counters(job)) == ("done", (1, 0, 2, 0))
    assert counters(yard.run(dry_run=True, limit=2)) == (2, 0, 0, 0)
    assert yard.count(ORDERS) == 0
    yard.publish(b"4", exchange="", key=GRAVE)
    letters = yard.letters(GRAVE)
    assert [(letter.body, letter["redelivered"]) for letter in letters] == [
        (b"1", True),
        (b"2", False),
        (b"3", False),
        (b"4", False),
    ]
    assert "x-death" in headers_of(letters[0])


def test_a_dry_run_is_not_noticed_after_a_restart_either(yard: Yard) -> None:
    yard.bury(b"1", b"2")
    yard.run(dry_run=True)
    yard.restart()
    assert [(letter.body, letter["redelivered"]) for letter in yard.letters(GRAVE)] == [(b"1", False), (b"2", False)]


def test_a_filter_moves_some_and_leaves_the_rest_in_order(yard: Yard) -> None:
    yard.bury(*(b"%d" % number for number in range(20)), headers={"kind": "a"})
    yard.bury(b"other", headers={"kind": "b"})
    chosen = ReplayFilter(reason="rejected", queue=ORDERS, exchange_pattern="^sh", headers={"kind": "a"})
    job = yard.run(filter=chosen, limit=15)
    assert counters(job) == (15, 15, 0, 0)
    job = yard.run(filter=ReplayFilter(headers={"kind": "b"}))
    assert counters(job) == (1, 1, 5, 0)
    assert yard.bodies(ORDERS) == [b"%d" % number for number in range(15)] + [b"other"]
    assert yard.bodies(GRAVE) == [b"%d" % number for number in range(15, 20)]


def test_what_waits_on_disk_is_replayed_too(yard: Yard) -> None:
    """More than a queue has in memory, with bodies that the filter looks into."""
    bodies = [b"%04d" % number + bytes(20_000) for number in range(400)]
    yard.bury(*bodies)
    job = yard.run(filter=ReplayFilter(body_contains=b"7"))
    sevens = [body for body in bodies if b"7" in body]
    assert counters(job) == (len(sevens), len(sevens), 400 - len(sevens), 0)
    assert yard.bodies(ORDERS) == sevens
    assert yard.bodies(GRAVE) == [body for body in bodies if b"7" not in body]


def test_priorities_keep_their_order(yard: Yard) -> None:
    yard.client.call(1, "queue.declare", queue="ranked", durable=True, arguments={"x-max-priority": 5})
    for body, priority in ((b"1", 0), (b"2", 4), (b"3", 0), (b"4", 4)):
        yard.publish(body, exchange="", key="ranked", priority=priority)
    job = yard.run("ranked", to="target", routing_key=GRAVE, filter=ReplayFilter(body_contains=b"3"))
    assert counters(job) == (1, 1, 3, 0)
    assert (yard.bodies("ranked"), yard.bodies(GRAVE)) == ([b"2", b"4", b"1"], [b"3"])


# ---- pace, cancelling, who else is there


def test_a_rate_is_kept(yard: Yard) -> None:
    yard.bury(*(b"%d" % number for number in range(151)))
    began = time.monotonic()
    job = yard.start(rate=50)
    wait_for("some", lambda: yard.job(job.id).moved > 5)
    assert yard.job(job.id).remaining > 0
    assert 0 < yard.job(job.id).moved_per_s < 100
    assert yard.ended(job.id).moved == 151
    assert 2.5 < time.monotonic() - began < 50


def test_a_cancelled_job_leaves_the_rest(yard: Yard) -> None:
    bodies = [b"%d" % number for number in range(100)]
    yard.bury(*bodies)
    job = yard.start(rate=20, filter=ReplayFilter(body_contains=b"5"))
    wait_for("some", lambda: yard.job(job.id).moved >= 2)
    assert yard.broker.call(lambda node: node.reprocessor.cancel(job.id))
    job = yard.ended(job.id)
    assert job.state == "cancelled"
    fives = [body for body in bodies if b"5" in body]
    assert 2 <= job.moved < len(fives)
    assert not yard.broker.call(lambda node: node.reprocessor.cancel(job.id)), "it is over"
    moved = yard.bodies(ORDERS)
    assert moved == fives[: job.moved]
    assert yard.letters(GRAVE)[0]["redelivered"] is False
    assert yard.count(GRAVE) == 0
    with pytest.raises(ReplayNotFound):
        yard.broker.call(lambda node: node.reprocessor.cancel("5"))


def test_one_job_a_queue(yard: Yard) -> None:
    yard.bury(b"1", b"2", b"3")
    job = yard.start(rate=1)
    with pytest.raises(ReplayConflict, match=f"is being reprocessed already, by job {job.id}"):
        yard.start()
    with pytest.raises(ReplayConflict, match="cancel it first"):
        yard.broker.call(lambda node: node.reprocessor.forget(job.id))
    assert yard.run(ORDERS, dry_run=True).state == "done", "another queue is another matter"
    yard.broker.call(lambda node: node.reprocessor.cancel(job.id))
    yard.ended(job.id)
    last = yard.run()
    jobs = yard.broker.call(lambda node: node.reprocessor.jobs())
    assert (jobs[0].queue, jobs[0].id) == (GRAVE, last.id)
    assert sorted(found.queue for found in jobs) == [GRAVE, ORDERS]
    yard.broker.call(lambda node: node.reprocessor.forget(last.id))
    with pytest.raises(ReplayNotFound):
        yard.job(last.id)


def test_what_does_not_exist_or_makes_no_sense_is_refused(yard: Yard) -> None:
    for queue, spec in (("missing", {}), (GRAVE, {"to": "target", "exchange": "missing"})):
        with pytest.raises(ReplayNotFound, match="missing"):
            yard.start(queue, **spec)
    with pytest.raises(ReplayNotFound, match="vhost 'missing'"):
        yard.broker.call(lambda node: node.reprocessor.start("missing", GRAVE, ReplaySpec()))
    with pytest.raises(InvalidReplay, match=r"filter\.reason"):
        yard.start(filter=ReplayFilter(reason="boredom"))
    yard.client.call(1, "queue.declare", queue="mine", exclusive=True)
    with pytest.raises(ReplayConflict, match="belongs to one connection alone"):
        yard.start("mine")
    assert yard.broker.call(lambda node: node.reprocessor.jobs()) == []


def test_a_message_that_dies_again_is_not_replayed_again(yard: Yard) -> None:
    """A consumer rejects everything: with each message replayed twice the job would never end."""
    yard.bury(*(b"%d" % number for number in range(50)))
    hostile = yard.connected()
    hostile.call(1, "basic.consume", queue=ORDERS)
    job = yard.start(rate=200)
    for _ in range(50):
        tag = hostile.expect(1, "basic.deliver")["delivery_tag"]
        hostile.send(1, "basic.reject", delivery_tag=tag, requeue=False)
    job = yard.ended(job.id)
    assert (job.state, counters(job)) == ("done", (50, 50, 0, 0))
    hostile.expect_quiet()
    wait_for("burials", lambda: yard.count(GRAVE) == 50)
    assert {headers_of(letter)["x-replay-count"] for letter in yard.letters(GRAVE)} == {1}


def test_a_consumer_of_the_same_queue_shares_it(yard: Yard) -> None:
    bodies = [b"%d" % number for number in range(60)]
    yard.bury(*bodies)
    job = yard.start(rate=200)
    wait_for("some", lambda: yard.job(job.id).moved >= 5)
    reader = yard.connected()
    reader.call(1, "basic.qos", prefetch_count=10)
    reader.call(1, "basic.consume", queue=GRAVE)
    read = []
    for _ in range(10):
        letter = reader.expect(1, "basic.deliver")
        read.append(letter.body)
    reader.send(1, "basic.ack", delivery_tag=letter["delivery_tag"], multiple=True)
    # It goes away with what it got since.
    reader.socket.close()
    job = yard.ended(job.id)
    wait_for("what the reader had", lambda: yard.count(ORDERS) + yard.count(GRAVE) == 50)
    moved, left = yard.bodies(ORDERS), yard.bodies(GRAVE)
    assert job.moved == len(moved)
    assert sorted(read + moved + left) == sorted(bodies)


def test_a_job_waits_while_there_is_an_alarm(yard: Yard) -> None:
    yard.bury(b"1")
    yard.broker.raise_alarm("disk")
    job = yard.start()
    wait_for("the wait", lambda: yard.job(job.id).waiting == "low on disk")
    assert yard.count(ORDERS) == 0
    yard.broker.clear_alarm("disk")
    assert yard.ended(job.id).moved == 1


def test_a_job_ends_with_its_queue(yard: Yard) -> None:
    yard.bury(*(b"%d" % number for number in range(10)))
    job = yard.start(rate=5, filter=ReplayFilter(body_contains=b"9"))
    yard.client.call(1, "queue.delete", queue=GRAVE)
    with pytest.raises(ReplayNotFound):
        yard.job(job.id)
    wait_for("its end", lambda: not yard.broker.call(lambda node: node.reprocessor.is_running("/", GRAVE)))
    assert yard.broker.call(lambda node: len(node.broker.movers)) == 0


# ---- restarts


def test_a_job_goes_on_after_a_restart_with_what_is_left_of_its_limit(yard: Yard) -> None:
    bodies = [b"%03d" % number for number in range(300)]
    yard.bury(*bodies)
    job = yard.start(rate=100, limit=120, filter=ReplayFilter(body_contains=b"1"))
    wait_for("some", lambda: yard.job(job.id).moved >= 20)
    yard.restart()
    found = yard.job(job.id)
    assert (found.state, found.moved >= 20) == ("running", True)
    yard.publish(b"1 came later", exchange="", key=GRAVE)
    done = yard.ended(job.id)
    ones = [body for body in bodies if b"1" in body]
    assert len(ones) > 120
    assert (done.state, done.moved) == ("done", 120)
    assert yard.bodies(ORDERS) == ones[:120]
    rest = [body for body in bodies if body not in ones[:120]]
    assert yard.bodies(GRAVE) == [*rest, b"1 came later"]


def test_a_job_of_a_restarted_broker_takes_nothing_that_came_later(yard: Yard) -> None:
    yard.bury(*(b"%d" % number for number in range(10)))
    job = yard.start(rate=20)
    wait_for("some", lambda: yard.job(job.id).moved >= 2)
    yard.restart()
    yard.publish(b"later", exchange="", key=GRAVE)
    assert yard.ended(job.id).moved == 10
    assert yard.bodies(GRAVE) == [b"later"]


def test_a_finished_job_is_remembered(yard: Yard) -> None:
    yard.bury(b"1")
    job = yard.run(limit=5)
    yard.restart()
    assert yard.job(job.id) == job
    assert yard.bodies(ORDERS) == [b"1"]


# ---- the schedule


def test_the_schedule_retries_the_queues_it_was_given(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard(**{"dead_letters.queues": ["gr.ve"], "dead_letters.every_s": 0.2})
    yard.client.call(1, "queue.declare", queue="ungraved", durable=True)
    yard.publish(b"stays", exchange="", key="ungraved")
    client = yard.connected()
    client.publish(1, SHOP, KEY, b"1", {"delivery_mode": 2})
    client.call(1, "basic.consume", queue=ORDERS)
    for replays in range(3):
        letter = client.expect(1, "basic.deliver")
        assert headers_of(letter).get("x-replay-count", 0) == replays
        client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=False)
    letter = client.expect(1, "basic.deliver")
    client.send(1, "basic.ack", delivery_tag=letter["delivery_tag"])
    jobs = yard.broker.call(lambda node: node.reprocessor.jobs())
    assert [(job.queue, job.scheduled) for job in jobs] == [(GRAVE, True)]
    assert yard.count("ungraved") == 1


def test_what_is_too_old_is_archived_and_alerted_on(make_yard: Callable[..., Yard]) -> None:
    yard = make_yard(
        **{"dead_letters.queues": [".*"], "dead_letters.every_s": 0.5, "dead_letters.archive_after_s": 1800.0}
    )
    yard.client.call(1, "queue.unbind", queue=ORDERS, exchange=SHOP, routing_key=KEY)
    hour_ago = int(time.time()) - 3600
    yard.publish(b"old", exchange="", key=GRAVE, headers={"x-first-death-time": hour_ago, "x-death": "odd"})
    yard.publish(b"young", exchange="", key=GRAVE)
    archived = yard.broker.call
    wait_for("the alert", lambda: bool(archived(lambda node: node.reprocessor.alerts.recent)))
    (alert,) = archived(lambda node: list(node.reprocessor.alerts.recent))
    assert (alert.vhost, alert.queue, alert.kind, alert.count) == ("/", GRAVE, "archived", 1)
    time.sleep(0.7)
    (letter,) = yard.letters("leveret.archive")
    assert (letter.body, headers_of(letter)) == (b"old", {"x-death": "odd", "x-first-death-time": hour_ago})
    totals = archived(lambda node: (node.reprocessor.alerts.totals["archived"], node.reprocessor.archived_total))
    assert totals == (1, 1)
    wait_for("nothing held", lambda: yard.count(GRAVE) == 1)
    record = archived(lambda node: node.broker.vhosts["/"].queues[b"leveret.archive"].record)
    assert record.durable and not record.auto_delete
    assert drain(yard.client, GRAVE) == [b"young"]


def test_an_operator_may_archive_by_way_of_an_exchange(yard: Yard) -> None:
    yard.client.call(1, "queue.declare", queue="cold", durable=True)
    yard.client.call(1, "queue.bind", queue="cold", exchange="amq.fanout", routing_key="")
    yard.bury(b"1")
    job = yard.run(archive=ReplayArchive(0, "amq.fanout", "k"))
    assert (job.moved, job.archived) == (0, 1)
    (letter,) = yard.letters("cold")
    assert (letter["exchange"], letter["routing_key"]) == ("amq.fanout", "k")
    assert "x-death" in headers_of(letter)
