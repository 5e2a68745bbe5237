"""Files that somebody deleted, swapped or cut in a data directory: the broker starts, and says what is missing. And
whatever the moment of a crash, nothing is called missing that the broker itself has deleted or never had."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from leveret.storage import segment_files
from leveret.storage.damage import Damage
from leveret.storage.holdings import THE_LOG
from leveret.storage.inspect import Inspection
from leveret.storage.inspect_report import KnownIds
from leveret.storage.layout import Layout, read_format
from leveret.storage.manifest import Manifest, ReadManifest
from leveret.storage.missing import COPIED
from leveret.storage.store import Store, StoreSettings
from leveret.storage.stream import files as stream_files
from leveret.testing import Broker
from tests.unit.storage.filled import BODY, PERSISTENT, STREAM, channel_of, fill, settings, waited


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue and a stream with several segments each, stopped in good order."""
    root = tmp_path_factory.mktemp("made") / "data"
    with Broker(settings(root)) as broker, channel_of(broker) as channel:
        fill(channel, 500)
        waited(lambda: len(list((root / "log").glob("*.index"))) >= 3)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def segments(root: Path) -> list[Path]:
    return sorted((root / "log").glob("*.segment"))


def stream_segments(root: Path) -> list[Path]:
    return sorted((root / "streams").glob("*/*.segment"))


def checked(root: Path) -> list[Damage]:
    stream_id = {int(path.name) for path in (root / "streams").iterdir()} | {2}
    return Inspection(root, lambda *_: KnownIds({1}, set(), 3, stream_id)).check().damages


def started(root: Path) -> list[Damage]:
    with Broker(settings(root)) as broker:
        return broker.call(lambda node: list(node.store.damages))


def told(root: Path) -> list[tuple[str, str]]:
    """What a start reports, which a check has found before, and the next start does not report again."""
    before = {(str(damage.path), damage.what) for damage in checked(root)}
    found = started(root)
    assert {(str(damage.path), damage.what) for damage in found} <= before
    assert started(root) == []
    return [(damage.path.name, damage.what) for damage in found]


def test_a_whole_directory_has_nothing_to_tell(root: Path) -> None:
    assert checked(root) == [] and told(root) == []


def test_a_deleted_segment_of_the_log_is_told_with_what_it_held(root: Path) -> None:
    gone = segments(root)[1]
    held = ReadManifest(Layout(root), read_format(Layout(root)) or 0).holdings.of(THE_LOG)[int(gone.stem)]
    gone.unlink()
    assert held.messages > 50
    words = f"the segment is missing: it held {held.messages} messages, in records {held.first} to {held.last}"
    assert told(root) == [(gone.name, words)]


def test_the_last_segment_deleted(root: Path) -> None:
    """Nothing behind it says that it was there. Its number is not given again."""
    *_, last = [path for path in segments(root) if path.read_bytes()[64:].strip(b"\0")]
    last.unlink()
    ((name, what),) = told(root)
    assert name == last.name and what.startswith("the segment is missing: it held")
    assert not last.exists() and int(segments(root)[-1].stem) > int(last.stem)


def test_all_of_the_log_deleted(root: Path) -> None:
    count = len(segments(root))
    shutil.rmtree(root / "log")
    names = [name for name, what in told(root) if what.startswith("the segment is missing")]
    assert len(names) == count


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_deleted_segment_of_a_stream(root: Path, which: int) -> None:
    """The first one looks like retention, the last one as if it had never been."""
    gone = stream_segments(root)[which]
    gone.unlink()
    gone.with_suffix(".index").unlink(missing_ok=True)
    ((name, what),) = [one for one in told(root) if "index" not in one[1]]
    assert name == gone.name and what.startswith("the segment is missing: it held")
    assert "offset" in what


def test_the_directory_of_a_stream_deleted(root: Path) -> None:
    files = stream_segments(root)
    shutil.rmtree(files[0].parent)
    found = told(root)
    assert [name for name, _ in found] == [path.name for path in files]
    with Broker(settings(root)) as broker, channel_of(broker) as channel:
        offset = broker.call(lambda node: node.store.streams.logs[2].next_offset)
        assert offset == 500, "its offsets are not given again"
        channel.basic_publish("", "visits", b"after", PERSISTENT)
    assert started(root) == []


def test_a_swapped_file_goes_to_quarantine(root: Path) -> None:
    first, second, *_ = segments(root)
    first.write_bytes(second.read_bytes())
    ((name, what),) = told(root)
    assert name == first.name and what.startswith("another file lies in the place of this segment: it held")
    assert (root / "quarantine" / first.name).read_bytes() == second.read_bytes() or second.exists()
    assert not first.exists()


def test_a_segment_of_another_directory(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Broker(settings(other)) as broker, channel_of(broker) as channel:
        fill(channel, 10)
    stream = stream_segments(root)[0]
    shutil.copy(stream_segments(other)[0], stream)
    ((name, what),) = [one for one in told(root) if "index" not in one[1]]
    assert name == stream.name and what.startswith("another file lies in the place")


def test_an_older_copy_of_a_sealed_segment(root: Path, tmp_path: Path) -> None:
    """Its head is right, and every record that it has: only the end is another."""
    path = segments(root)[1]
    octets = path.read_bytes()
    path.write_bytes(octets[: len(octets) // 2])
    path.with_suffix(".index").unlink()
    found = told(root)
    assert found and all(name == path.name for name, _ in found)


def test_a_last_segment_that_is_cut_deep_is_damage(root: Path) -> None:
    """All that could say so in the log itself is cut off with it."""
    *_, last = [path for path in segments(root) if path.read_bytes()[64:].strip(b"\0")]
    size = len(last.read_bytes().rstrip(b"\0"))
    last.write_bytes(last.read_bytes()[: size // 3])
    assert told(root) == [(last.name, "the last records of the segment are lost")]


def test_a_last_segment_that_is_cut_after_a_kill_is_damage(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with Broker(settings(root)) as broker, channel_of(broker) as channel:
        fill(channel, 20)
        layout = Layout(root)

        def synced() -> int:
            return ReadManifest(layout, read_format(layout) or 0).holdings.synced.get(THE_LOG, 0)

        sequence = broker.call(lambda node: node.store.journal.synced_sequence)
        waited(lambda: synced() >= sequence)
        shutil.copytree(root, tmp_path / "killed")
    killed = tmp_path / "killed"
    segment, stream = segments(killed)[0], stream_segments(killed)[0]
    for path in (segment, stream):
        path.write_bytes(path.read_bytes()[:4000])
    found = [(damage.path.name, damage.what) for damage in started(killed)]
    assert (segment.name, "the last records of the segment are lost") in found
    assert (stream.name, "the end of a stream's segment is lost") in found


def test_a_directory_without_a_manifest_is_adopted(root: Path) -> None:
    layout = Layout(root)
    layout.manifest.unlink()
    assert checked(root) == [] and started(root) == []
    numbers = {int(path.stem) for path in segments(root)}
    assert numbers <= set(ReadManifest(layout, read_format(layout) or 0).holdings.of(THE_LOG))
    gone, of_stream = segments(root)[0], stream_segments(root)[0]
    gone.unlink()
    of_stream.unlink()
    found = {damage.path: damage.what for damage in started(root)}
    assert found[of_stream].startswith("the segment is missing")
    assert found[gone].startswith("the segment is missing: it held"), "its index has said what"


def test_many_streams_are_adopted_with_few_syncs(tmp_path: Path) -> None:
    """A start must not take a sync a stream."""
    root = tmp_path / "data"
    with Broker(settings(root)) as broker, channel_of(broker) as channel:
        for number in range(60):
            channel.queue_declare(f"stream-{number}", durable=True, arguments=STREAM)
            channel.basic_publish("", f"stream-{number}", BODY, PERSISTENT)
    Layout(root).manifest.unlink()
    with Broker(settings(root)) as broker:
        assert broker.call(lambda node: node.store._manifest.syncs_total) < 10
        held = broker.call(lambda node: len(node.store._manifest.holdings.segments))
    assert held == 61


def test_a_damaged_manifest_costs_no_message(root: Path) -> None:
    octets = bytearray(Layout(root).manifest.read_bytes())
    octets[100] ^= 1
    Layout(root).manifest.write_bytes(octets)
    ((name, what),) = told(root)
    assert name == "manifest" and what.startswith("the manifest is damaged")
    with Broker(settings(root)) as broker, channel_of(broker) as channel:
        assert channel.queue_declare("orders", passive=True).method.message_count == 500


def test_a_copy_of_a_running_directory_is_recognised(root: Path, tmp_path: Path) -> None:
    with Broker(settings(root)) as broker:
        # Else the next segment may be made while the copy is.
        waited(lambda: broker.call(lambda node: node.store.journal.spare is not None))
        shutil.copytree(root, tmp_path / "copy")
        moved = root.rename(tmp_path / "moved")
    assert [damage.what for damage in checked(tmp_path / "copy")] == [COPIED]
    assert told(tmp_path / "copy") == [("copy", COPIED)]
    assert started(moved) == [], "it has only another name"


def test_a_copy_of_a_stopped_directory_is_as_good_as_the_original(root: Path, tmp_path: Path) -> None:
    assert started(root) == []
    shutil.copytree(root, tmp_path / "copy")
    assert started(tmp_path / "copy") == []


def test_no_crash_makes_a_segment_look_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory as it is before and after every file is made, deleted and recorded."""
    root = tmp_path / "data"
    taken: list[Path] = []

    def take() -> None:
        copy = tmp_path / f"taken-{len(taken)}"
        copy.mkdir()
        # First: what is synced meanwhile is not yet known to it.
        if (root / "manifest").exists():
            shutil.copy(root / "manifest", copy)
        shutil.copytree(root, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest*", "pages", "lock"))
        taken.append(copy)

    def around(module: object, name: str) -> None:
        original = getattr(module, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            take()
            try:
                return original(*arguments, **options)
            finally:
                take()

        monkeypatch.setattr(module, name, wrapped)

    with Broker(settings(root)) as broker, channel_of(broker) as channel:
        for name in ("create_file", "remove_files"):
            around(segment_files, name)
        around(stream_files, "remove_files")
        around(Manifest, "record")
        fill(channel, 150)
        channel.queue_purge("orders")
        channel.queue_delete("visits")
        waited(lambda: broker.call(lambda node: node.store._reclaimer.deleted_total) > 0)  # type: ignore[union-attr]
        # The manifest does not grow with streams that are gone.
        waited(lambda: broker.call(lambda node: list(node.store._manifest.holdings.segments)) == [THE_LOG])
        channel.queue_declare("visits", durable=True, arguments=STREAM)
        fill(channel, 30)
        monkeypatch.undo()
    # How many depends on how many records of the manifest share one write.
    assert len(taken) > 10
    for copy in taken[:: max(1, len(taken) // 40)]:
        store = Store(copy, StoreSettings(65536), lambda: 1)
        store.restore(0)
        store.abandon()
        # Each is a copy of a running directory, and nothing else is wrong with it.
        assert [damage for damage in store.damages if damage.what != COPIED] == []
