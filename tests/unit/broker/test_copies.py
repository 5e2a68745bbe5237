"""CC and BCC: further keys that a message goes by."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.copies import resolve_copies
from leveret.core.contract import Queue
from leveret.core.properties import Properties, encode_properties, parse_properties
from leveret.errors import SoftError
from tests.unit.queues.dataplane import Workbench


def resolved(**headers: Any) -> tuple[list[bytes], Properties]:
    bench = Workbench()
    for name in "abcd":
        bench.add_queue(name)
    properties = parse_properties(encode_properties(headers=headers, message_id="m"))
    targets: tuple[Queue, ...]
    targets, properties = resolve_copies(bench.router, bench.exchanges[b""], b"a", properties)
    return [queue.name for queue in targets], properties


def test_a_message_goes_by_its_own_key_and_those_of_cc_and_bcc() -> None:
    targets, _ = resolved(CC=["b"], BCC=["c", "nowhere"])
    assert targets == [b"a", b"b", b"c"]


def test_a_queue_that_several_keys_lead_to_gets_one() -> None:
    assert resolved(CC=["b", "a", "b"])[0] == [b"a", b"b"]


def test_what_is_no_text_is_no_key() -> None:
    assert resolved(CC=["b", 5, None])[0] == [b"a", b"b"]


def test_nobody_sees_bcc() -> None:
    _, properties = resolved(CC=["b"], BCC=["c"], other=1)
    assert properties.fields() == {"headers": {"CC": ["b"], "other": 1}, "message_id": "m"}


def test_without_bcc_the_properties_stay_the_same_object() -> None:
    bench = Workbench()
    properties = parse_properties(encode_properties(headers={"CC": ["b"]}))
    assert resolve_copies(bench.router, bench.exchanges[b""], b"a", properties)[1] is properties


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_anything_but_a_list_is_refused(name: str) -> None:
    with pytest.raises(SoftError) as refused:
        resolved(**{name: "b"})
    assert refused.value.code == 406
    assert refused.value.text == f'invalid message: {{unacceptable_type_in_header,"{name}",longstr}}'
