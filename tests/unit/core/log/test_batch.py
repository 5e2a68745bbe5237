"""A batch is what its maker put into it; a publisher without a channel behind it takes notice of nothing."""

from leveret.core.log.batch import Batch, Publisher


def test_a_batch_holds_what_goes_to_disk_together_and_who_waits() -> None:
    publisher = Publisher()
    batch = Batch(3, bytearray(b"records"), [("segment", 0, 7, 64)], 12, [(publisher, 5)])
    assert (batch.number, batch.data, batch.last_sequence) == (3, bytearray(b"records"), 12)
    assert batch.parts == [("segment", 0, 7, 64)]
    assert batch.waiters == [(publisher, 5)]


def test_a_publisher_has_published_nothing_at_first() -> None:
    publisher = Publisher()
    assert publisher.accepted_seq == 0
    assert publisher.synced(1, 0) == 0
