"""When the disk is far behind: whatever is to be written counts, the log's messages and the pages of transient ones."""

from pathlib import Path

from leveret.core.codec.message import new_message
from leveret.core.codec.properties import parse_properties
from leveret.storage.store import Store, StoreSettings

LARGE = bytes(9 << 20)


def opened(root: Path) -> Store:
    store = Store(root, StoreSettings(), lambda: 7)
    store.take_commands()
    store.restore(0)
    return store


def test_pages_of_transient_messages_count(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert not store.is_congested
    store.paging_context.pager.page(new_message(b"", b"q", parse_properties(b"\x00\x00"), LARGE))
    assert not store.journal.congested
    assert store.is_congested
    store.abandon()


def test_streams_count(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.streams.create(1).append(b"\x00\x00", b"\x00\x00", LARGE, 1, 0, None, 0)
    assert store.is_congested
    store.abandon()
