"""Login responses: PLAIN and AMQPLAIN, well formed and not, and that no password gets into an error."""

from __future__ import annotations

import pytest

from leveret.core.codec.tables import encode_table
from leveret.errors import HardError
from leveret.wire.limits import SASL_RESPONSE_BYTES_MAX
from leveret.wire.sasl import MECHANISMS, Credentials, check_mechanism, offered_mechanisms, parse_response


def amqplain(**fields: object) -> bytes:
    return encode_table(fields)[4:]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("response", "user", "password"),
    [
        (b"\x00guest\x00guest", "guest", b"guest"),
        (b"guest\x00guest\x00pass", "guest", b"pass"),
        (b"\x00\x00", "", b""),
        ("\x00jürgen\x00päss".encode(), "jürgen", "päss".encode()),
        (b"\x00u\x00\xff\xfe", "u", b"\xff\xfe"),
    ],
)
def test_plain(response: bytes, user: str, password: bytes) -> None:
    assert parse_response("PLAIN", response) == Credentials(user, password)


@pytest.mark.parametrize(
    "response",
    [b"", b"guest", b"\x00guest", b"guest\x00guest", b"\x00a\x00b\x00c", b"other\x00guest\x00guest", b"\x00\xff\x00x"],
)
def test_a_bad_plain_response_is_refused(response: bytes) -> None:
    with pytest.raises(HardError, match="PLAIN response invalid") as caught:
        parse_response("PLAIN", response)
    assert caught.value.code == 502


@pytest.mark.parametrize(
    ("response", "user", "password"),
    [
        (amqplain(LOGIN="guest", PASSWORD="secret"), "guest", b"secret"),
        (amqplain(extra=[1, {"a": None}], PASSWORD="\udcff", LOGIN=""), "", b"\xff"),
    ],
)
def test_amqplain(response: bytes, user: str, password: bytes) -> None:
    assert parse_response("AMQPLAIN", response) == Credentials(user, password)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (b"", "missing LOGIN or PASSWORD"),
        (amqplain(LOGIN="guest"), "missing LOGIN or PASSWORD"),
        (amqplain(PASSWORD="secret"), "missing LOGIN or PASSWORD"),
        (amqplain(LOGIN=5, PASSWORD="secret"), "unsupported type for LOGIN or PASSWORD"),
        (amqplain(LOGIN="guest", PASSWORD=None), "unsupported type for LOGIN or PASSWORD"),
        (amqplain(LOGIN="\udcff", PASSWORD="secret"), "not UTF-8"),
        (amqplain(LOGIN="guest", PASSWORD="secret")[:-1], "not a table"),
        (encode_table({"LOGIN": "guest", "PASSWORD": "secret"}), "not a table"),
    ],
)
def test_a_bad_amqplain_response_is_refused(response: bytes, words: str) -> None:
    with pytest.raises(HardError, match=words) as caught:
        parse_response("AMQPLAIN", response)
    assert caught.value.code == 502
    assert "secret" not in str(caught.value)


def test_no_password_is_shown() -> None:
    assert "secret" not in repr(parse_response("PLAIN", b"\x00guest\x00secret"))
    with pytest.raises(HardError) as caught:
        parse_response("PLAIN", b"x\x00guest\x00secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_response_has_a_limit(mechanism: str) -> None:
    with pytest.raises(HardError, match="4097 bytes of at most 4096"):
        parse_response(mechanism, b"\x00" * (SASL_RESPONSE_BYTES_MAX + 1))


def test_an_unknown_mechanism_is_refused_as_rabbitmq_does() -> None:
    with pytest.raises(HardError, match="unknown authentication mechanism 'GSSAPI'") as caught:
        parse_response("GSSAPI", b"")
    assert caught.value.code == 503
    assert list(MECHANISMS) == ["PLAIN", "AMQPLAIN"]


def test_what_is_offered_is_what_is_configured_and_possible() -> None:
    both = ("AMQPLAIN", "EXTERNAL", "PLAIN")
    assert offered_mechanisms(both, has_certificate=True) == ["AMQPLAIN", "EXTERNAL", "PLAIN"]
    assert offered_mechanisms(both, has_certificate=False) == ["AMQPLAIN", "PLAIN"]
    assert offered_mechanisms(("PLAIN",), has_certificate=True) == ["PLAIN"]
    assert offered_mechanisms(("GSSAPI",), has_certificate=True) == []


@pytest.mark.parametrize(("mechanism", "word"), [("EXTERNAL", "invalid"), ("PLAIN", "invalid"), ("GSSAPI", "unknown")])
def test_what_was_not_offered_is_refused_as_rabbitmq_does(mechanism: str, word: str) -> None:
    check_mechanism("AMQPLAIN", ["AMQPLAIN"])
    with pytest.raises(HardError, match=f"{word} authentication mechanism '{mechanism}'") as caught:
        check_mechanism(mechanism, ["AMQPLAIN"])
    assert caught.value.code == 503
