"""Prometheus' own client reads what we write: its parsers are the judges."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from prometheus_client.utils import floatToGoString

from leveret.management.metrics.exposition import (
    OPENMETRICS_END,
    Family,
    bound_text,
    escaped,
    family_text,
    number_text,
    wants_openmetrics,
)


def parsed(family: Family) -> list[tuple[str, dict[str, str], float]]:
    """What both parsers make of it, which must be the same."""
    plain = [sample[:3] for found in parse_plain(family_text(family)) for sample in found.samples]
    text = family_text(family, openmetrics=True) + OPENMETRICS_END
    assert plain == [sample[:3] for found in parse_openmetrics(text) for sample in found.samples]
    return plain


def test_a_gauge() -> None:
    family = Family("rabbitmq_queues", "gauge", "Queues that exist").add(3)
    assert (
        family_text(family)
        == "# HELP rabbitmq_queues Queues that exist\n# TYPE rabbitmq_queues gauge\nrabbitmq_queues 3\n"
    )
    assert parsed(family) == [("rabbitmq_queues", {}, 3.0)]


def test_a_counter_is_called_differently_in_openmetrics() -> None:
    family = Family("x_sent_total", "counter", "Sent").add(5, (("protocol", "stream"),))
    assert "# TYPE x_sent_total counter\n" in family_text(family)
    assert "# TYPE x_sent counter\n" in family_text(family, openmetrics=True)
    assert parsed(family) == [("x_sent_total", {"protocol": "stream"}, 5.0)]


def test_a_histogram_is_summed_up() -> None:
    family = Family("x_seconds", "histogram", "Time").add_histogram((0.1, 2.0), (4, 0, 1), 12.5, (("protocol", "p"),))
    assert parsed(family) == [
        ("x_seconds_bucket", {"protocol": "p", "le": "0.1"}, 4.0),
        ("x_seconds_bucket", {"protocol": "p", "le": "2.0"}, 4.0),
        ("x_seconds_bucket", {"protocol": "p", "le": "+Inf"}, 5.0),
        ("x_seconds_sum", {"protocol": "p"}, 12.5),
        ("x_seconds_count", {"protocol": "p"}, 5.0),
    ]


def test_a_histogram_needs_a_count_for_each_bucket() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        Family("x_seconds", "histogram", "Time").add_histogram((0.1, 2.0), (4, 0), 1)


def test_only_counters_are_totals() -> None:
    with pytest.raises(AssertionError):
        Family("x_total", "gauge", "Not one")
    with pytest.raises(AssertionError):
        Family("x", "counter", "Not called one")


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (2.5, "2.5"), (math.nan, "NaN"), (math.inf, "+Inf")])
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(min_value=1e-5, max_value=1e15))
def test_bounds_are_written_as_prometheus_clients_do(bound: float) -> None:
    assert bound_text(bound) == floatToGoString(bound)


@given(st.text())
def test_any_label_comes_back(value: str) -> None:
    assert parsed(Family("x", "gauge", "Any name").add(1, (("queue", value),))) == [("x", {"queue": value}, 1.0)]


def test_a_label_that_is_no_utf8_spells_its_octets_out() -> None:
    name = b"\xc3\xa4 \xff\xc3".decode("utf-8", "surrogateescape")
    assert escaped(name) == "ä \\\\xff\\\\xc3"
    text = family_text(Family("x", "gauge", "Any name").add(1, (("queue", name),)))
    assert parsed(Family("x", "gauge", "Any name").add(1, (("queue", name),)))[0][1] == {"queue": "ä \\xff\\xc3"}
    text.encode()


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text; version=1.0.0", True),
        # As Prometheus 2.42 and 3 ask.
        ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.2", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=rubbish, text/plain", False),
        ("application/json", False),
    ],
)  # fmt: skip
def test_what_a_scraper_wants(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics
