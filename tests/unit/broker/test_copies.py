"""CC and BCC: further keys that a message goes by."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.copies import resolve_copies
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.errors import SoftError
from tests.unit.queues.dataplane import Workbench


def resolved(**headers: Any) -> list[bytes]:
    bench = Workbench()
    for name in "abcd":
        bench.add_queue(name)
    properties = parse_properties(encode_properties(headers=headers, message_id="m"))
    return [queue.name for queue in resolve_copies(bench.router, bench.exchanges[b""], b"a", properties)]


def test_a_message_goes_by_its_own_key_and_those_of_cc_and_bcc() -> None:
    assert resolved(CC=["b"], BCC=["c", "nowhere"]) == [b"a", b"b", b"c"]


def test_a_queue_that_several_keys_lead_to_gets_one() -> None:
    assert resolved(CC=["b", "a", "b"]) == [b"a", b"b"]


def test_what_is_no_text_is_no_key() -> None:
    assert resolved(CC=["b", 5, None]) == [b"a", b"b"]


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_anything_but_a_list_is_refused(name: str) -> None:
    with pytest.raises(SoftError) as refused:
        resolved(**{name: "b"})
    assert refused.value.code == 406
    assert refused.value.text == f'invalid message: {{unacceptable_type_in_header,"{name}",longstr}}'
