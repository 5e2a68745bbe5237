"""Every method under hypothesis: octets survive, pika agrees on them, noise is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.codec.field_types import Table
from leveret.errors import HardError
from leveret.wire.codec import METHODS, decode_method, encode_method, method_name
from leveret.wire.connection_methods import ConnectionUpdateSecret
from leveret.wire.method import Method

short_text = st.text(max_size=60).filter(lambda text: len(text.encode()) <= 255)
table_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | short_text | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short_text, inner, max_size=3),
    max_leaves=6,
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "uint8": st.integers(0, 2**8 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "shortstr": short_text,
    "longstr": st.binary(max_size=300),
    "table": st.dictionaries(short_text, table_values, max_size=4),
}


def kind(cls: type[Method], name: str) -> str:
    annotation = cls.__annotations__[name]
    return "table" if annotation == Table else str(annotation.__metadata__[0])


def instances(cls: type[Method]) -> st.SearchStrategy[Method]:
    return st.builds(cls, **{name: KINDS[kind(cls, name)] for name in cls.__struct_fields__})


methods = st.sampled_from(list(METHODS.values())).flatmap(instances)
channels = st.integers(0, 65535)

# Where pika names a field in its own way.
PIKA_NAMES = {("basic.qos", "global_"): "global_qos"}


def payload_of(frame: bytes) -> bytes:
    return frame[11:-1]


@given(methods, channels)
def test_what_is_written_is_read(method: Method, channel: int) -> None:
    frame = encode_method(channel, method)
    assert frame[0] == 1 and frame[-1] == 0xCE
    assert int.from_bytes(frame[1:3], "big") == channel
    assert int.from_bytes(frame[3:7], "big") == len(frame) - 8
    assert int.from_bytes(frame[7:11], "big") == method.METHOD
    assert decode_method(method.METHOD, payload_of(frame)) == method


@given(methods)
def test_pika_writes_and_reads_the_same_octets(method: Method) -> None:
    spec = pytest.importorskip("pika.spec")
    name = method_name(method.METHOD)
    payload = payload_of(encode_method(1, method))
    theirs = spec.methods[method.METHOD].__new__(spec.methods[method.METHOD])
    theirs.decode(payload)
    if isinstance(method, ConnectionUpdateSecret):
        # pika 1.4 reads the secret into an attribute of another method.
        theirs.new_secret = method.new_secret
    for field in method.__struct_fields__:
        value = getattr(theirs, PIKA_NAMES.get((name, field), field))
        # pika gives a long string as text where it can.
        assert (value.encode() if isinstance(value, str) and kind(type(method), field) == "longstr" else value) == (
            getattr(method, field)
        )
    assert b"".join(theirs.encode()) == payload


def test_pika_knows_no_method_that_we_do_not() -> None:
    spec = pytest.importorskip("pika.spec")
    assert set(spec.methods) <= set(METHODS)


@st.composite
def damaged_payloads(draw: st.DrawFn) -> tuple[int, bytes]:
    method = draw(methods)
    payload = bytearray(payload_of(encode_method(0, method)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(payload)))
        payload[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return method.METHOD, bytes(payload)


@given(damaged_payloads() | st.tuples(st.sampled_from(list(METHODS)), st.binary(max_size=60)))
def test_noise_is_refused_or_stable(sample: tuple[int, bytes]) -> None:
    number, payload = sample
    try:
        method = decode_method(number, payload)
    except HardError as error:
        assert error.code == 501
        assert error.method == number or "UTF-8" in error.text
        return
    again = payload_of(encode_method(0, method))
    assert decode_method(number, again) == method


@given(st.integers(0, 2**32 - 1), st.binary(max_size=20))
def test_unknown_methods_are_refused(number: int, payload: bytes) -> None:
    if number in METHODS:
        return
    with pytest.raises(HardError) as caught:
        decode_method(number, payload)
    assert caught.value.code == 503
