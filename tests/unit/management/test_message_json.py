"""Messages between AMQP and JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.management.api.message_json import body_of, payload_of, properties_from, properties_of, value_of
from leveret.management.http.errors import HttpError
from leveret.management.http.fields import Fields


@given(st.binary(max_size=64), st.sampled_from(["auto", "base64"]), st.none() | st.integers(0, 70))
def test_payloads_can_always_be_said_and_read_back(body: bytes, encoding: str, truncate: int | None) -> None:
    payload, shown_as = payload_of(body, encoding, truncate)
    json.dumps(payload)
    back = payload.encode() if shown_as == "string" else base64.b64decode(payload)
    whole = body if truncate is None else body[:truncate]
    # At most a letter that the cut went through is missing.
    assert whole.startswith(back)
    assert len(whole) - len(back) <= (3 if truncate is not None and truncate < len(body) else 0)


@given(st.text(max_size=40), st.integers(0, 100))
def test_text_that_is_cut_stays_text(text: str, truncate: int) -> None:
    payload, shown_as = payload_of(text.encode(), "auto", truncate)
    assert shown_as == "string"
    assert text.startswith(payload)


def test_what_is_sent_is_what_is_shown() -> None:
    given_ = {"headers": {"a": [1, {"b": "x"}], "n": 2**40}, "priority": 3, "type": "t", "timestamp": 5}
    assert properties_of(properties_from(Fields({"properties": given_}))) == given_
    assert properties_of(properties_from(Fields({"properties": []}))) == {}


def test_octets_that_are_no_text_say_so() -> None:
    assert value_of({"x": [b"\xff", b"ok", "\udcfe"]}) == {
        "x": ["Not UTF-8, base64 is: /w==", "ok", "Not UTF-8, base64 is: /g=="]
    }


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"payload": "\ud800", "payload_encoding": "string"}, "payload is no valid text"),
        ({"payload": "x" * 500, "payload_encoding": "base64x"}, ["unsupported_encoding", "base64x"]),
        ({"payload": "é" * 500, "payload_encoding": "base64"}, ["not_base64", "é" * 64]),
        ({"payload": "x", "payload_encoding": 5}, ["unsupported_encoding", "5"]),
    ],
)
def test_bad_payloads_are_refused_with_a_short_reason(fields: dict[str, Any], reason: Any) -> None:
    with pytest.raises(HttpError) as refused:
        body_of(Fields(fields))
    assert (refused.value.status, refused.value.reason) == (400, reason)


@given(
    st.dictionaries(
        st.sampled_from(["headers", "priority", "timestamp", "type", "expiration", "delivery_mode", "zz"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=300), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_whatever_properties_are_sent_they_are_taken_or_refused(given_: dict[str, Any]) -> None:
    try:
        found = properties_from(Fields({"properties": given_}))
    except HttpError as refused:
        assert refused.status == 400
    else:
        assert set(properties_of(found)) <= set(given_)
