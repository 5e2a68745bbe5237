"""Sixteen octets that stand for a payload."""

from __future__ import annotations

import pytest

from leveret.cluster.consensus.descriptor import DESCRIPTOR_BYTES, describe, describes, level_of, payload_length


def test_descriptors_name_one_payload() -> None:
    descriptor = describe(b"payload", 3)
    assert len(descriptor) == DESCRIPTOR_BYTES and payload_length(descriptor) == 7 and level_of(descriptor) == 3
    assert describes(descriptor, b"payload")
    assert not describes(descriptor, b"payloaD") and not describes(descriptor, b"payload ")
    with pytest.raises(ValueError, match="4294967295 octets"):
        payload_length(b"\xff" * 16)
