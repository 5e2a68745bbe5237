"""Batches settle exactly what is in them, with one word where that is enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.client.batches import Batch
from tests.unit.core.client.test_settlement import Scene

ACK, NACK = 0x003C0050, 0x003C0078
MULTIPLE = 1


def test_a_good_batch_is_one_ack() -> None:
    scene = Scene()
    batch = Batch(scene.taken(10))
    batch.ack()
    assert scene.written() == [(ACK, 10, MULTIPLE)]
    batch.ack()
    assert scene.written() == []


def test_failures_are_single_and_the_rest_is_one_ack() -> None:
    scene = Scene()
    batch = Batch(scene.taken(5))
    batch.failed(batch.deliveries[1])
    batch.failed(batch.deliveries[4], requeue=True)
    batch.ack()
    assert scene.written() == [(NACK, 2, 0), (NACK, 5, 2), (ACK, 4, MULTIPLE)]
    assert scene.codec.unsettled_count == 0


def test_an_earlier_batch_is_not_settled_with_a_later_one() -> None:
    scene = Scene()
    deliveries = scene.taken(6)
    first, second = Batch(deliveries[:3]), Batch(deliveries[3:])
    second.ack()
    assert scene.written() == [(ACK, 4, 0), (ACK, 5, 0), (ACK, 6, 0)]
    first.nack()
    assert scene.written() == [(NACK, 3, MULTIPLE | 2)]
    assert (scene.codec.acked_total, scene.codec.nacked_total, scene.codec.unsettled_count) == (3, 3, 0)


@given(st.data())
def test_any_batches_in_any_order(data: st.DataObject) -> None:
    scene = Scene()
    deliveries = scene.taken(data.draw(st.integers(1, 24)))
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=len(deliveries), max_size=len(deliveries)))
    batches = [Batch([one for one, at in zip(deliveries, numbers, strict=True) if at == number]) for number in range(4)]
    open_tags = {one.delivery_tag for one in deliveries}
    for batch in data.draw(st.permutations(batches)):
        for one in batch:
            if data.draw(st.booleans()):
                batch.failed(one)
        if data.draw(st.booleans()):
            batch.ack()
        else:
            batch.nack()
        open_tags -= {one.delivery_tag for one in batch}
        assert scene.codec.unsettled_count == len(open_tags)
        assert {one.delivery_tag for one in deliveries if not one.is_settled} == open_tags
