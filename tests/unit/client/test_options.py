"""Options of a connection: defaults, what a URL may say, and what is refused before anything is tried."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from leveret.client.errors import InvalidUrl
from leveret.client.options import Options, read_options
from leveret.client.url import parse_urls


def read(url: str = "amqp://", **given: Any) -> Options:
    return read_options(parse_urls(url), given)


def test_defaults() -> None:
    assert read() == Options()
    assert (Options().heartbeat, Options().auth, Options().wait_s, Options().give_up_after_s) == (30, "plain", 0, None)


def test_a_url_says_what_it_can() -> None:
    url = "amqp://h?heartbeat=5&connect_deadline_s=1.5&deadline_s=2&name=me&channel_max=9&frame_max=8192&auth=external"
    assert read(url) == Options(
        heartbeat=5, connect_deadline_s=1.5, deadline_s=2, name="me", channel_max=9, frame_max=8192, auth="external"
    )


def test_arguments_are_above_the_url_and_the_first_url_counts() -> None:
    assert read("amqp://h?heartbeat=5&name=a", heartbeat=7) == Options(heartbeat=7, name="a")
    assert read("amqp://h?name=a,amqp://h?name=b").name == "a"


@pytest.mark.parametrize("url", ["amqp://h?hartbeat=5", "amqp://h?ca=/etc/passwd", "amqp://h?heartbeat=often"])
def test_a_query_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        read(url)


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="no option hartbeat, zzz"):
        read(hartbeat=5, zzz=1)


@pytest.mark.parametrize(
    "given",
    [
        {"auth": "kerberos"},
        {"connect_deadline_s": 0},
        {"deadline_s": -1},
        {"close_deadline_s": 0},
        {"backoff_min_s": 0},
        {"deadline_s": float("nan")},
        {"backoff_min_s": 2, "backoff_max_s": 1},
        {"pool_size": 0},
        {"pool_size": 65},
        {"heartbeat": -1},
        {"heartbeat": 65536},
        {"heartbeat": float("nan")},
        {"channel_max": 0},
        {"channel_max": 65536},
        {"frame_max": 4095},
        {"frame_max": 0},
        {"frame_max": 2**32},
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        read(**given)


def test_a_tls_context_of_ones_own_is_used_as_it_is() -> None:
    context = ssl.create_default_context()
    assert Options(ssl=context).tls_context() is context


def test_a_tls_context_checks_names_and_knows_our_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ours = authority.issue_cert("client@example.org")
    ours.private_key_and_cert_chain_pem.write_to_path(tmp_path / "ours.pem")
    context = Options(ca=str(tmp_path / "ca.pem"), certificate=str(tmp_path / "ours.pem")).tls_context()
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1, "and no other authority"
