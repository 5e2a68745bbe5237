"""What a broker tells Prometheus is what its clients have done; and RabbitMQ's own dashboards find all they ask for."""

import re
import subprocess
from collections.abc import Iterator

import pika
import pytest

from tests.conformance.metrics_scene import Metrics, metrics_of
from tests.conformance.prometheus_process import ROOT
from tests.conformance.rabbitmq_dashboards import OLDER_OVERVIEWS, OVERVIEW, SIZE_BOUNDS, STREAM

DETAILED = (
    "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count&family=queue_metrics"
    "&family=queue_delivery_metrics&family=stream_consumer_metrics"
)
GLOBAL = "rabbitmq_global_messages_"


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metrics]:
    with metrics_of(tmp_path_factory.mktemp("metrics")) as made:
        yield made


@pytest.fixture
def channel(metrics: Metrics) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(metrics.broker.url))
    yield connection.channel()
    connection.close()


Channel = pika.adapters.blocking_connection.BlockingChannel


# ---- RabbitMQ's dashboards


@pytest.mark.parametrize("dashboard", [OVERVIEW, OLDER_OVERVIEWS, STREAM], ids=["overview", "older", "stream"])
def test_a_dashboard_of_rabbitmq_finds_its_metrics(metrics: Metrics, dashboard: dict[str, tuple[str, ...]]) -> None:
    samples = metrics.samples()
    for name, labels in dashboard.items():
        found = [{label for label, _ in has} for of, has in samples if of == name]
        assert found, f"{name} is missing"
        assert all(set(labels) <= has for has in found), name
        if dashboard is STREAM and "protocol" in labels:
            assert any(of == name and ("protocol", "stream") in has for of, has in samples), name


def test_every_panel_can_be_joined_with_one_identity(metrics: Metrics) -> None:
    for path, endpoint in (("/metrics", "aggregated"), ("/metrics/per-object", "per-object"), (DETAILED, "detailed")):
        found = [dict(has) for of, has in metrics.samples(path) if of == "rabbitmq_identity_info"]
        assert [one["rabbitmq_endpoint"] for one in found] == [endpoint]


def test_sizes_have_the_bounds_that_the_overview_compares(metrics: Metrics) -> None:
    bounds = [
        line.split('le="')[1].split('"')[0]
        for line in metrics.text().splitlines()
        if line.startswith('rabbitmq_message_size_bytes_bucket{protocol="amqp091"')
    ]
    assert tuple(bounds) == SIZE_BOUNDS


def test_counters_that_dashboards_add_have_the_same_labels(metrics: Metrics) -> None:
    """PromQL adds only samples whose labels are alike."""
    samples = metrics.samples()

    def labels(name: str) -> set[frozenset[tuple[str, str]]]:
        return {has for of, has in samples if of == f"{GLOBAL}{name}_total"}

    assert labels("received_confirm") == labels("confirmed")
    assert labels("delivered_consume_auto_ack") == labels("delivered_consume_manual_ack")
    assert {dict(has)["queue_type"] for has in labels("delivered")} == {
        "rabbit_classic_queue",
        "rabbit_quorum_queue",
        "rabbit_stream_queue",
    }


# ---- our own


def test_leveret_tells_how_long_things_take(metrics: Metrics, channel: Channel) -> None:
    channel.confirm_delivery()
    channel.queue_declare("times", durable=True)
    channel.basic_publish("", "times", b"x", pika.BasicProperties(delivery_mode=2))
    channel.basic_get("times", auto_ack=True)
    names = {name for name, _ in metrics.samples()}
    for name in ("event_loop_lag", "fsync", "gc_pause", "time_in_queue"):
        assert f"leveret_{name}_seconds_bucket" in names, name
    assert metrics.value("leveret_fsync_seconds_count") > 0
    assert metrics.value("leveret_time_in_queue_seconds_count") > 0
    assert metrics.value("rabbitmq_io_sync_ops_total") > 0
    channel.queue_delete("times")


def test_the_documents_name_every_metric_of_ours(metrics: Metrics) -> None:
    text = (ROOT / "docs/monitoring.md").read_text()
    named = set(re.findall(r"`(leveret_[a-z_]+)`", text[text.index("## Leveret's own metrics") :]))
    emitted = {
        found
        for path in ("/metrics", "/metrics/per-object", "/metrics/memory-breakdown")
        for found in re.findall(r"# TYPE (leveret_\S+)", metrics.text(path))
    }
    # This broker has no TLS.
    assert named - {"leveret_", "leveret_tls_certificate_expiry_timestamp_seconds"} == emitted


# ---- numbers


def test_what_clients_do_is_counted(metrics: Metrics, channel: Channel) -> None:
    before = metrics.samples()

    def grown(name: str, **labels: str) -> float:
        wanted = set(labels.items())
        assert any(of == name for of, _ in before), name
        return metrics.value(name, **labels) - sum(
            value for (of, has), value in before.items() if of == name and wanted <= has
        )

    channel.queue_declare("counted")
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("", "counted", b"12345678")
    channel.basic_publish("", "nowhere", b"lost")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"back", mandatory=True)
    taken = channel.basic_get("counted")[0]
    channel.basic_nack(taken.delivery_tag, requeue=True)
    again = channel.basic_get("counted")[0]
    channel.basic_ack(again.delivery_tag)
    channel.basic_get("counted", auto_ack=True)
    for _ in channel.consume("counted", inactivity_timeout=0.3):
        if channel.get_waiting_message_count() == 0:
            break
    amqp = {"protocol": "amqp091"}
    assert grown(f"{GLOBAL}received_total", **amqp) == 7
    assert grown(f"{GLOBAL}received_confirm_total", **amqp) == 7
    assert grown(f"{GLOBAL}confirmed_total", **amqp) == 7
    assert grown(f"{GLOBAL}routed_total", **amqp) == 5
    assert grown(f"{GLOBAL}unroutable_dropped_total", **amqp) == 1
    assert grown(f"{GLOBAL}unroutable_returned_total", **amqp) == 1
    classic = {**amqp, "queue_type": "rabbit_classic_queue"}
    assert grown(f"{GLOBAL}delivered_get_manual_ack_total", **classic) == 2
    assert grown(f"{GLOBAL}delivered_get_auto_ack_total", **classic) == 1
    assert grown(f"{GLOBAL}delivered_consume_manual_ack_total", **classic) == 3
    assert grown(f"{GLOBAL}delivered_total", **classic) == 6
    assert grown(f"{GLOBAL}redelivered_total", **classic) == 1
    assert grown(f"{GLOBAL}acknowledged_total", **classic) == 1
    assert grown("rabbitmq_queues_created_total") == 1
    assert grown("rabbitmq_message_size_bytes_sum", **amqp) == 5 * 8 + 4 + 4
    assert metrics.value("rabbitmq_queue_messages_unacked") == 3
    queue = {"vhost": "/", "queue": "counted"}
    assert metrics.value("rabbitmq_detailed_queue_messages_unacked", DETAILED, **queue) == 3
    assert metrics.value("rabbitmq_detailed_queue_consumers", DETAILED, **queue) == 1
    assert metrics.value("rabbitmq_detailed_queue_messages_bytes", DETAILED, **queue) == 24
    channel.cancel()
    channel.queue_delete("counted")
    assert grown(f"{GLOBAL}received_total", **amqp) == 7, "what is deleted was still counted"
    assert grown("rabbitmq_queues_deleted_total") == 1


def test_channels_and_connections_by_name(metrics: Metrics, channel: Channel) -> None:
    channel.basic_qos(prefetch_count=7)
    samples = metrics.samples("/metrics/per-object")
    prefetches = [value for (name, _), value in samples.items() if name == "rabbitmq_consumer_prefetch"]
    assert 7 in prefetches
    connections = {dict(has)["connection"] for of, has in samples if of == "rabbitmq_connection_incoming_bytes_total"}
    assert any(f"-> 127.0.0.1:{metrics.broker.port}" in name for name in connections)


def test_how_far_a_stream_consumer_is_behind(metrics: Metrics, channel: Channel) -> None:
    channel.confirm_delivery()
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    for _ in range(10):
        channel.basic_publish("", "log", b"x")
    channel.basic_qos(prefetch_count=4)
    channel.basic_consume("log", lambda *_: None, arguments={"x-stream-offset": "first"})
    channel.connection.process_data_events(0.3)
    behind = metrics.value("rabbitmq_stream_consumer_max_offset_lag")
    assert behind == 6
    assert metrics.value("rabbitmq_detailed_stream_consumer_max_offset_lag", DETAILED, queue="log") == 6
    channel.queue_delete("log")
    assert metrics.value("rabbitmq_stream_consumer_max_offset_lag") == 0


def test_how_far_a_consumer_is_behind_that_is_not_here(metrics: Metrics, channel: Channel) -> None:
    channel.confirm_delivery()
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    for _ in range(10):
        channel.basic_publish("", "log", b"x")
    told = {"x-stream-query": True, "x-stream-consumer-name": "lake", "x-stream-store-offset": 6}
    _, answer, _ = next(channel.consume("log", arguments=told, auto_ack=True))
    assert answer.headers["x-stream-stored-offset"] == 6
    lag = metrics.value("leveret_stream_stored_offset_lag", "/metrics/per-object", queue="log", consumer="lake")
    assert lag == 3
    channel.queue_delete("log")


def test_a_consumer_that_waits_for_its_turn_is_not_behind(metrics: Metrics, channel: Channel) -> None:
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=4)
    group = {"x-stream-offset": "first", "x-single-active-consumer": True, "x-stream-consumer-name": "group"}
    for _ in range(2):
        channel.basic_consume("log", lambda *_: None, arguments=group)
    assert metrics.value("rabbitmq_stream_consumer_max_offset_lag") == 0
    channel.queue_delete("log")


def test_dead_letters_by_reason(metrics: Metrics, channel: Channel) -> None:
    channel.queue_declare("letters")
    channel.queue_declare(
        "dying", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters", "x-max-length": 1}
    )
    channel.queue_declare("fading", arguments={"x-max-length": 1})
    carried = {"dead_letter_strategy": "at_least_once"}
    gone = {"dead_letter_strategy": "disabled"}
    name = f"{GLOBAL}dead_lettered_maxlen_total"
    before = metrics.value(name, **carried), metrics.value(name, **gone)
    channel.confirm_delivery()
    for queue in ("dying", "dying", "fading", "fading", "fading"):
        channel.basic_publish("", queue, b"x")
    assert (metrics.value(name, **carried) - before[0], metrics.value(name, **gone) - before[1]) == (1, 2)
    for queue in ("letters", "dying", "fading"):
        channel.queue_delete(queue)


# ---- form


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", DETAILED, "/metrics/memory-breakdown"])
def test_promtool_likes_it(metrics: Metrics, channel: Channel, path: str) -> None:
    channel.queue_declare('any "name" \\ at all é')
    channel.queue_declare("a stream", durable=True, arguments={"x-queue-type": "stream"})
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=metrics.text(path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for queue in ('any "name" \\ at all é', "a stream"):
        channel.queue_delete(queue)
