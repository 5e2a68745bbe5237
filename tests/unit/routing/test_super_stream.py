"""The x-super-stream type: which bindings have a place among the partitions."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.field_types import Int64
from leveret.errors import SoftError
from leveret.routing.registry import exchange_type


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        ("0", {}),
        ("41", {"anything": None}),
        ("emea", {"x-stream-partition-order": Int64(0)}),
        ("emea", {"x-stream-partition-order": "7"}),
    ],
)
def test_a_partition_has_a_number(key: str, arguments: dict[str, Any]) -> None:
    exchange_type("x-super-stream").validate_binding(key, arguments)


@pytest.mark.parametrize(
    ("key", "arguments", "text"),
    [
        # In the words of x-consistent-hash.
        ("emea", {}, 'The binding key must be an integer: <<"emea">>'),
        ("", {}, "The binding key must be an integer: <<>>"),
        ("0", {"x-stream-partition-order": "a"}, 'x-stream-partition-order must be an integer: <<"a">>'),
        ("0", {"x-stream-partition-order": True}, "x-stream-partition-order must be an integer: true"),
    ],
)
def test_a_binding_without_a_number_is_refused(key: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(SoftError) as caught:
        exchange_type("x-super-stream").validate_binding(key, arguments)
    assert (caught.value.code, caught.value.text) == (406, text)
