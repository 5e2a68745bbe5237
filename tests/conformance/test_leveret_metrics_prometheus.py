"""A real Prometheus scrapes a real broker with the configuration that we hand out, and every expression of our
dashboard, of our rules, and of RabbitMQ's dashboards means something to it."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.metrics_scene import metrics_of
from tests.conformance.prometheus_process import ROOT, Prometheus, running_prometheus
from tests.conformance.rabbitmq_dashboards import OLDER_OVERVIEWS, OVERVIEW, STREAM

pytestmark = pytest.mark.slow

# Panels that are empty as long as all is well, or as this broker is: nothing fills, no errors, no TLS.
MAY_BE_EMPTY = (
    "Growing fastest",
    "Disk is full in",
    "Certificates end in",
    "Refusals",
)


def work(url: str, ended: threading.Event) -> None:
    """Something goes on all the time, in a queue and in a stream, and one queue grows old."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("forgotten")
    # Where its dead letters would go, so that the one message there is taken for one.
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "forgotten"}
    channel.queue_declare("orders", durable=True, arguments=dead)
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("log", lambda *_: None, arguments={"x-stream-offset": "first"})
    channel.basic_publish("", "forgotten", b"who takes me?")
    while not ended.is_set():
        for queue in ("orders", "log"):
            channel.basic_publish("", queue, b"x" * 2000, pika.BasicProperties(delivery_mode=2))
        method, _, _ = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
        connection.process_data_events(0.05)
    connection.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with (
        metrics_of(tmp_path_factory.mktemp("broker")) as metrics,
        running_prometheus(tmp_path_factory.mktemp("prometheus"), metrics.target) as made,
    ):
        ended = threading.Event()
        worker = threading.Thread(target=work, args=(metrics.broker.url, ended))
        worker.start()
        try:
            # Until rates of all that happens are known.
            made.wait_for("leveret:fsync_seconds:p99_5m > 0")
            made.wait_for("sum(rate(rabbitmq_global_messages_acknowledged_total[30s])) > 0")
            made.wait_for("leveret:queue_messages:deriv10m")
            yield made
        finally:
            ended.set()
            worker.join(20)


def dashboard_expressions() -> list[Any]:
    panels = json.loads((ROOT / "deploy/grafana/leveret.json").read_text())["panels"]
    return [
        pytest.param(panel["title"], target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in panels
        for target in panel.get("targets", ())
    ]


def filled_in(expression: str) -> str:
    """As Grafana does, with everything chosen."""
    return re.sub(r"\$(instance|vhost|queue|cluster)", ".*", expression.replace("$__rate_interval", "30s"))


@pytest.mark.parametrize(("title", "expression"), dashboard_expressions())
def test_every_panel_has_something_to_show(prometheus: Prometheus, title: str, expression: str) -> None:
    found = prometheus.ask(filled_in(expression))
    assert found or title in MAY_BE_EMPTY


def test_both_jobs_are_scraped_without_a_complaint(prometheus: Prometheus) -> None:
    targets = prometheus.get("/api/v1/targets")["activeTargets"]
    assert sorted(target["labels"]["job"] for target in targets) == ["leveret", "leveret-queues"]
    assert [target["health"] for target in targets] == ["up", "up"]
    assert [target["lastError"] for target in targets] == ["", ""]
    # Duplicate or out of order samples would stand here.
    assert "scrape" not in prometheus.log()


def test_every_rule_is_evaluated(prometheus: Prometheus) -> None:
    groups = prometheus.get("/api/v1/rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 25
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"} == {}


def test_one_dead_letter_fires_an_alert_that_names_queue_and_source(prometheus: Prometheus) -> None:
    chosen = 'alertname="LeveretDeadLetters", alertstate="firing", vhost="/", queue="forgotten", source="orders"'
    prometheus.wait_for(f"ALERTS{{{chosen}}}")


def test_every_metric_that_a_rule_names_exists(prometheus: Prometheus) -> None:
    names = set(prometheus.get("/api/v1/label/__name__/values"))
    text = "".join((ROOT / "deploy/prometheus" / name).read_text() for name in ("alerts.yml", "recording.yml"))
    expressions = re.findall(r"\n +expr: ((?:[^|\n].*)|\|(?:\n {10,}.*)+)", text)
    used = set(re.findall(r"\b(?:rabbitmq|leveret)[_:][a-z0-9_:]+", " ".join(expressions)))
    assert len(used) > 25
    # This broker has no TLS.
    assert used - names == {"leveret_tls_certificate_expiry_timestamp_seconds"}


@pytest.mark.parametrize("name", sorted({*OVERVIEW, *OLDER_OVERVIEWS, *STREAM} - {"rabbitmq_identity_info"}))
def test_rabbitmqs_dashboards_can_join_every_metric(prometheus: Prometheus, name: str) -> None:
    """By instance alone, as the older ones do, although both of our jobs are scraped; and by job as well."""
    counted = name.endswith(("_total", "_bucket", "_sum", "_count"))
    metric = f"rate({name}[60s])" if counted else name
    labels = "rabbitmq_cluster, rabbitmq_node"
    for shared, chosen in (("instance", ""), ("instance, job", ', rabbitmq_endpoint="aggregated"')):
        identity = f'rabbitmq_identity_info{{rabbitmq_cluster="leveret", namespace=""{chosen}}}'
        found = prometheus.ask(f"sum by (rabbitmq_node) ({metric} * on({shared}) group_left({labels}) {identity})")
        assert [set(one["metric"]) for one in found] == [{"rabbitmq_node"}]


def test_the_table_of_nodes(prometheus: Prometheus) -> None:
    found = prometheus.ask(
        "rabbitmq_erlang_uptime_seconds * on(instance, job) group_left(rabbitmq_version, erlang_version)"
        " rabbitmq_build_info * on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info"
    )
    assert [one["metric"]["rabbitmq_version"] for one in found] == ["4.3.0"]


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [
        ("rabbitmq_identity_info", "rabbitmq_cluster", {"leveret"}),
        ("rabbitmq_detailed_queue_messages", "vhost", {"/"}),
        ("rabbitmq_detailed_queue_messages", "queue", {"orders", "forgotten", "log"}),
    ],
)
def test_the_dashboards_variables_find_what_to_choose_from(
    prometheus: Prometheus, name: str, label: str, values: set[str]
) -> None:
    assert {one["metric"][label] for one in prometheus.ask(name)} == values
