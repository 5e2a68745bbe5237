"""AMQP URLs: what they say, what is refused, and that no password is ever shown."""

from __future__ import annotations

import traceback

import pytest

from leveret.client.errors import ClientError, InvalidUrl
from leveret.client.url import DEFAULT_URL, Address, parse_urls


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://", Address("localhost", 5672)),
        ("amqp://localhost", Address("localhost", 5672)),
        ("amqps://localhost", Address("localhost", 5671, tls=True)),
        ("amqp://host:1234", Address("host", 1234)),
        ("amqp://host/", Address("host", 5672, vhost="/")),
        ("amqp://host/%2F", Address("host", 5672, vhost="/")),
        ("amqp://host/%2f", Address("host", 5672, vhost="/")),
        ("amqp://host/orders", Address("host", 5672, vhost="orders")),
        ("amqp://host/a%2Fb", Address("host", 5672, vhost="a/b")),
        ("amqp://host/%C3%BC", Address("host", 5672, vhost="ü")),
        ("amqp://me:secret@host", Address("host", 5672, user="me", password="secret")),
        ("amqp://me@host", Address("host", 5672, user="me", password="")),
        ("amqp://me:@host", Address("host", 5672, user="me", password="")),
        ("amqp://:secret@host", Address("host", 5672, user="", password="secret")),
        ("amqp://m%40e:s%3A%2F%23%40@host", Address("host", 5672, user="m@e", password="s:/#@")),
        ("amqp://[::1]:5673/v", Address("::1", 5673, vhost="v")),
        ("amqp://127.0.0.1?heartbeat=5", Address("127.0.0.1", 5672, options=(("heartbeat", "5"),))),
        ("amqp://h/v?name=a%20b&auth=", Address("h", 5672, vhost="v", options=(("name", "a b"), ("auth", "")))),
        (DEFAULT_URL, Address("localhost", 5672)),
    ],
)
def test_what_a_url_says(url: str, expected: Address) -> None:
    assert parse_urls(url) == [expected]


@pytest.mark.parametrize(
    "urls", ["amqp://a,amqps://b", "amqp://a amqps://b", "amqp://a, amqps://b ", ["amqp://a", "amqps://b"]]
)
def test_there_may_be_several(urls: str | list[str]) -> None:
    assert parse_urls(urls) == [Address("a", 5672), Address("b", 5671, tls=True)]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "no URL"),
        ("  ,", "no URL"),
        ("http://host", "scheme is 'http'"),
        ("host:5672", "scheme is 'host'"),
        ("amqp://host/a/b", "%2F"),
        ("amqp://host/v#rest", "%23"),
        ("amqp://host:port", "cannot be read"),
        ("amqp://host:99999", "cannot be read"),
        ("amqp://[::1", "cannot be read"),
        ("amqp://user:hunter2/word@host", "cannot be read"),
        ("amqp://user:hunter2\u2100@host", "cannot be read"),
    ],
)
def test_what_is_no_url_is_refused_without_quoting_it(url: str, problem: str) -> None:
    with pytest.raises(InvalidUrl, match=problem) as caught:
        parse_urls(url)
    assert isinstance(caught.value, ClientError)
    assert isinstance(caught.value, ValueError)
    # Nor in what it was raised for, which a log shows as well.
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidUrl, match="no URL"):
        parse_urls([])


def test_no_text_of_an_address_has_a_password() -> None:
    [address] = parse_urls("amqps://me:secret@host/v")
    assert str(address) == "host:5671"
    assert repr(address) == "Address(amqps://me@host:5671/v)"
    assert str(parse_urls("amqp://[::1]")[0]) == "[::1]:5672"
