"""What each endpoint shows, and what it shows of what there is."""

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from leveret.catalog import commands
from leveret.catalog.records import BindingRecord, GlobalParameter, Vhost
from leveret.management.metrics import scraper as scraper_module
from leveret.management.metrics.scraper import EVERY_FAMILY, NODE_GROUPS
from leveret.management.services import ServedCertificate
from leveret.runtime.time_slice import TimeSlice
from tests.unit.management.metrics.scene import Scene, names, samples_of, value


def run(made: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(made)


def test_queues_are_added_up() -> None:
    scene = Scene()
    for name in ("one", "two"):
        scene.declare(name)
        scene.publish(name, b"x" * 10)
    samples = run(scene.samples())
    assert value(samples, "rabbitmq_queues") == 2
    assert value(samples, "rabbitmq_queue_messages_ready") == 2
    assert value(samples, "rabbitmq_queue_messages_unacked") == 0
    assert value(samples, "rabbitmq_queue_messages_bytes") == 20
    assert value(samples, "rabbitmq_queue_messages_ram_bytes") == 20
    assert value(samples, "leveret_queues_without_consumers") == 2
    assert not any(name.startswith("rabbitmq_detailed_") for name in names(samples))
    assert not any(label == "queue" for _, labels in samples for label, _ in labels)


class Closable:
    name, user = "a connection", "ann"

    def close_by_broker(self, code: int, text: str) -> None: ...


def test_budgets_show_what_is_used_and_how_often_there_was_no_room() -> None:
    scene = Scene()
    account = scene.broker.limits.unfinished.open_account(Closable())
    account.take(5000)
    bodies = scene.source.http_budgets["http_bodies"]
    bodies.add("ann", 700)
    bodies.refused_total += 2
    samples = run(scene.samples())
    assert value(samples, "leveret_budget_used_bytes", budget="unfinished_messages") == 5000
    assert value(samples, "leveret_budget_used_bytes", budget="http_bodies") == 700
    assert value(samples, "leveret_budget_refused_total", budget="http_bodies") == 2


def test_the_oldest_message_counts() -> None:
    scene = Scene()
    for name, age_ms in (("young", 1_000), ("old", 90_000), ("middle", 5_000)):
        scene.declare(name)
        scene.publish(name, age_ms=age_ms)
        scene.publish(name)
    assert value(run(scene.samples()), "leveret_queue_oldest_message_age_seconds") == pytest.approx(90, abs=5)
    by_queue = run(scene.samples("per-object"))
    labels = {"vhost": "/", "queue": "middle"}
    assert value(by_queue, "leveret_queue_oldest_message_age_seconds", **labels) == pytest.approx(5, abs=3)


def test_each_queue_by_itself() -> None:
    scene = Scene()
    scene.declare("one")
    scene.declare("two")
    scene.publish("one", b"12345", timestamp=1_700_000_000)
    samples = run(scene.samples("per-object"))
    one, two = {"vhost": "/", "queue": "one"}, {"vhost": "/", "queue": "two"}
    assert value(samples, "rabbitmq_queue_messages_ready", **one) == 1
    assert value(samples, "rabbitmq_queue_messages_ready", **two) == 0
    assert value(samples, "rabbitmq_queue_messages_ready_bytes", **one) == 5
    assert value(samples, "rabbitmq_queue_head_message_timestamp", **one) == 1_700_000_000
    assert math.isnan(value(samples, "rabbitmq_queue_head_message_timestamp", **two))
    assert value(samples, "rabbitmq_queue_messages_published_total", **one) == 1
    assert ("rabbitmq_queue_messages_ready", frozenset()) not in samples


def test_details_have_names_of_their_own_and_only_what_was_asked_for() -> None:
    scene = Scene()
    scene.declare("one")
    samples = run(scene.samples("detailed", families=frozenset({"queue_coarse_metrics", "no such group"})))
    assert names(samples) == {
        "rabbitmq_identity_info",
        "rabbitmq_build_info",
        "leveret_build_info",
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_messages",
    }


def test_no_details_unless_they_are_asked_for() -> None:
    assert names(run(Scene().samples("detailed"))) == {
        "rabbitmq_identity_info",
        "rabbitmq_build_info",
        "leveret_build_info",
    }


# A broker without a disk has nothing to say of it; tests/conformance has one.
@pytest.mark.parametrize("family", sorted({*EVERY_FAMILY, *NODE_GROUPS} - {"node_persister_metrics"}))
def test_every_group_can_be_asked_for(family: str) -> None:
    scene = Scene()
    scene.declare("one")
    text = run(scene.text("detailed", families=frozenset({family})))
    # What is the same for the whole cluster has no other name here, as with RabbitMQ.
    assert "_detailed_" in text or "rabbitmq_cluster_" in text
    samples_of(text)
    list(parse_openmetrics(run(scene.text("detailed", families=frozenset({family}), openmetrics=True)) + "# EOF\n"))


def test_queues_are_chosen_by_vhost_and_name() -> None:
    scene = Scene()
    scene.broker.apply(commands.PutVhost(Vhost("other")))
    for vhost in ("/", "other"):
        for name in ("one", "two"):
            scene.declare(name, vhost)

    def seen(**wishes: frozenset[str]) -> set[tuple[str, str]]:
        samples = run(scene.samples("detailed", families=frozenset({"queue_consumer_count"}), **wishes))
        return {
            (dict(labels)["vhost"], dict(labels)["queue"])
            for name, labels in samples
            if name == "rabbitmq_detailed_queue_consumers"
        }

    assert len(seen()) == 4
    assert seen(vhosts=frozenset({"other"})) == {("other", "one"), ("other", "two")}
    assert seen(vhosts=frozenset({"other"}), queues=frozenset({"two", "three"})) == {("other", "two")}
    assert seen(vhosts=frozenset({"nowhere"})) == set()


def test_bindings_are_counted() -> None:
    scene = Scene()
    scene.declare("one")
    for key in ("a", "b"):
        scene.broker.apply(commands.Bind(BindingRecord("/", "amq.topic", True, "one", key, {})))
    samples = run(scene.samples("detailed", families=frozenset({"exchange_bindings", "exchange_names"})))
    topic = {"vhost": "/", "exchange": "amq.topic", "type": "topic"}
    assert value(samples, "rabbitmq_cluster_exchange_bindings", **topic) == 2
    assert value(samples, "rabbitmq_cluster_exchange_name", **topic) == 1
    fanout = {"vhost": "/", "exchange": "amq.fanout", "type": "fanout"}
    assert value(samples, "rabbitmq_cluster_exchange_bindings", **fanout) == 0


def test_names_may_be_anything() -> None:
    scene = Scene()
    evil = 'a"} 1\nb{\\' + b"\xff".decode("utf-8", "surrogateescape")
    scene.declare(evil)
    samples = run(scene.samples("per-object"))
    queues = {dict(labels)["queue"] for _, labels in samples if "queue" in dict(labels)}
    assert queues == {'a"} 1\nb{\\\\xff'}


def test_labels_are_kept_only_of_what_exists() -> None:
    scene = Scene()
    scene.declare("one")
    scene.declare("two")
    run(scene.text("per-object"))
    scene.broker.apply(commands.DeleteQueue("/", "one"))
    run(scene.text("detailed", families=frozenset({"queue_metrics"}), queues=frozenset({"two"})))
    run(scene.text("per-object"))
    assert set(scene.scraper._rows._labels) == {("/", b"two")}


def test_who_this_is() -> None:
    for endpoint in ("aggregated", "per-object", "detailed", "memory-breakdown"):
        samples = run(Scene().samples(endpoint))
        found = [dict(labels) for name, labels in samples if name == "rabbitmq_identity_info"]
        assert found == [
            {
                "rabbitmq_node": "leveret@here",
                "rabbitmq_cluster": "test",
                "rabbitmq_cluster_permanent_id": "an id",
                "rabbitmq_endpoint": endpoint,
            }
        ]


def test_an_operator_may_call_the_cluster_something_else() -> None:
    scene = Scene()
    scene.broker.apply(commands.PutGlobalParameter(GlobalParameter("cluster_name", "main street")))
    found = [dict(labels) for name, labels in run(scene.samples()) if name == "rabbitmq_identity_info"]
    assert [one["rabbitmq_cluster"] for one in found] == ["main street"]


def test_room_and_alarms() -> None:
    scene = Scene()
    scene.broker.raise_alarm("memory", "low on memory")
    samples = run(scene.samples())
    assert value(samples, "rabbitmq_process_resident_memory_bytes") == 1000
    assert value(samples, "rabbitmq_resident_memory_limit_bytes") == 5000
    assert value(samples, "rabbitmq_disk_space_available_bytes") == 70
    assert value(samples, "rabbitmq_disk_space_available_limit_bytes") == 7
    assert value(samples, "rabbitmq_alarms_memory_used_watermark") == 1
    assert value(samples, "rabbitmq_alarms_free_disk_space_watermark") == 0
    assert value(samples, "rabbitmq_erlang_uptime_seconds") == pytest.approx(60, abs=10)
    assert 0 < value(samples, "rabbitmq_process_open_fds") < value(samples, "rabbitmq_process_max_fds")


def test_what_is_not_known_is_not_there() -> None:
    scene = Scene(room=None)
    assert "rabbitmq_process_resident_memory_bytes" not in names(run(scene.samples()))
    scene = Scene()
    assert scene.room is not None
    scene.room.disk_free_bytes = None
    found = names(run(scene.samples()))
    assert "rabbitmq_disk_space_available_bytes" not in found
    assert "rabbitmq_process_resident_memory_bytes" in found
    assert not {"leveret_http_leases", "leveret_tls_certificate_expiry_timestamp_seconds"} & found
    # Nor do we say anything of an Erlang machine, or of Raft groups that do not exist.
    assert not [name for name in found if name.startswith(("erlang_", "rabbitmq_raft_"))]


def test_what_others_count() -> None:
    scene = Scene()
    object.__setattr__(scene.source, "http_leases", lambda: 3)
    object.__setattr__(scene.source, "http_sessions", lambda: 2)
    object.__setattr__(scene.source, "certificates", lambda: [ServedCertificate("server.pem", 2e9)])
    samples = run(scene.samples())
    assert value(samples, "leveret_http_leases") == 3
    assert value(samples, "leveret_http_sessions") == 2
    assert value(samples, "leveret_replay_messages_total") == 4
    assert value(samples, "leveret_tls_certificate_expiry_timestamp_seconds", certificate="server.pem") == 2e9


def test_memory_is_broken_down() -> None:
    scene = Scene()
    scene.declare("one")
    scene.publish("one", b"x" * 300)
    samples = run(scene.samples("memory-breakdown"))
    assert value(samples, "leveret_memory_bytes", component="message_bodies") == 300
    assert value(samples, "leveret_memory_bytes", component="outboxes") == 0
    assert value(samples, "leveret_memory_bytes", component="other") == 700


def test_all_of_it_is_openmetrics_too() -> None:
    scene = Scene()
    scene.declare("one")
    for endpoint in ("aggregated", "per-object", "memory-breakdown"):
        assert list(parse_openmetrics(run(scene.text(endpoint, openmetrics=True)) + "# EOF\n"))


class TimedSlice(TimeSlice):
    """Notes how much of the processor each slice took: what the machine does besides does not matter."""

    slices: list[float] = []  # noqa: RUF012 - the test reads it

    def __init__(self) -> None:
        super().__init__()
        self._began = time.thread_time()

    async def rest(self) -> None:
        spent = self.spent_s
        await super().rest()
        if self.spent_s != spent:
            self.slices.append(time.thread_time() - self._began)
            self._began = time.thread_time()


def test_ten_thousand_queues_do_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    for i in range(10_000):
        scene.declare(f"queue-{i}")
    monkeypatch.setattr(scraper_module, "TimeSlice", TimedSlice)
    for endpoint in ("aggregated", "per-object"):
        TimedSlice.slices.clear()
        before = time.thread_time()
        text = run(scene.text(endpoint))
        assert time.thread_time() - before < 1.0
        assert len(TimedSlice.slices) > 5
        # One in a hundred may have met the garbage collector.
        assert sorted(TimedSlice.slices)[int(len(TimedSlice.slices) * 0.9)] < 0.010
    assert text.count("\n") > 200_000


def test_a_queue_of_dead_letters_is_told_by_source() -> None:
    scene = Scene()
    scene.declare("orders.dead")
    scene.declare("orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"})
    labels = {"vhost": "/", "queue": "orders.dead", "source": "orders"}
    family, name = frozenset({"dead_letter_metrics"}), "leveret_detailed_dead_letter_queue_messages"
    assert value(run(scene.samples("detailed", families=family)), name, **labels) == 0
    scene.publish("orders.dead")
    assert value(run(scene.samples("detailed", families=family)), name, **labels) == 1
    assert name not in names(run(scene.samples("detailed", families=family, queues=frozenset({"orders"}))))
