"""Damaged data directories: cut files, flipped bits, leftovers of crashes, and crashes during recovery.

Every one of them boots, nothing is missing but what was hit, and whatever is missing was reported and is in quarantine.
`LEVERET_CRASH_FLIPS` says how many bits are flipped (10000 for the full form); without it, as many as CI has time for.
`LEVERET_CRASH_SEED` repeats a run."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from leveret.core.log.records import sealed
from leveret.core.log.scan import Scan
from leveret.errors import StartupError
from leveret.runtime.files import DirectoryLock
from leveret.storage import catalog_log, damage, layout, recovery, segment_files, survey
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import SEGMENT, file_salt
from leveret.storage.store import Store, StoreSettings
from leveret.storage.survey import TORN, Survey
from leveret.testing import Broker
from tests.crash.corruption import (
    HEAD_BYTES,
    MESSAGE,
    Specimen,
    finished,
    make_specimens,
    messages_in,
    open_directory,
    records_of,
)
from tests.crash.flip_judge import judge_flip
from tests.crash.rounds import seed_of

_FLIPS: Final = int(os.environ.get("LEVERET_CRASH_FLIPS") or 800)
_PARTS: Final = 8
# Every offset of so many records at the end of a log is a place to cut.
_CUT_RECORDS: Final = 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def specimens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Specimen]:
    return make_specimens(tmp_path_factory.mktemp("specimens"))


@pytest.fixture
def killed(specimens: dict[str, Specimen]) -> Specimen:
    return specimens["killed"]


def newest(specimen: Specimen) -> str:
    """The segment with the last record; the one behind it is empty, made in advance."""
    return specimen.log[-1].file


def test_the_specimens_are_worth_damaging(specimens: dict[str, Specimen]) -> None:
    for specimen in specimens.values():
        assert len(specimen.indexed) >= 5 and len(specimen.unindexed) >= 2
        assert len(specimen.catalog) > 100
        held = {kept.deliveries for found in specimen.messages.values() for kept in found}
        assert {0, 1, 4} <= held
        assert any(len(record.targets) == 3 for record in specimen.log)
        for name, bodies in specimen.confirmed.items():
            found = specimen.messages.get(specimen.queue_ids[f"/|{name}"], [])
            assert bodies == {kept.body for kept in found}
        # Everything but the very last record is known to be synced, so that every damage is one that must be reported.
        assert max(record.synced for record in specimen.log) == specimen.log[-1].sequence - 1


# ---- cut files


@pytest.mark.parametrize("kind", ["killed", "stopped", "unindexed"])
def test_the_log_is_cut_anywhere(specimens: dict[str, Specimen], kind: str) -> None:
    specimen = specimens[kind]
    file = newest(specimen)
    # The records that a kill leaves at the end are as short as a batch of notes; the messages before them are not.
    records = [record for record in specimen.log if record.file == file]
    last = [record for record in records if record.kind == MESSAGE][-2:] + records[-_CUT_RECORDS:]
    start = min(record.offset for record in last)
    # Every offset once; the other directories differ in what is before.
    judge_cuts(specimen, file, range(start, specimen.log[-1].end + 1, 1 if kind == "killed" else 7))


def judge_cuts(specimen: Specimen, file: str, cuts: range) -> None:
    for cut in cuts:
        left = finished([record for record in specimen.log if record.file != file or record.end <= cut])
        with specimen.opened({file: specimen.files[file][:cut]}) as opened:
            assert opened.messages == messages_in(left, set(specimen.queue_ids.values())), f"cut at {cut}"
            assert opened.commands == specimen.commands
            assert opened.damages == [], "a torn end is no damage"
            if cut % 16 == 0:
                again = open_directory(opened.root)
                assert (again.messages, again.damages) == (opened.messages, []), f"the second start, cut at {cut}"


def test_the_catalog_is_cut_anywhere(killed: Specimen) -> None:
    file = killed.catalog_file
    for cut in range(killed.catalog[-_CUT_RECORDS].offset, len(killed.files[file]) + 1):
        with killed.opened({file: killed.files[file][:cut]}) as opened:
            assert opened.messages == killed.messages, f"cut at {cut}"
            assert opened.damages == []
            gone = [record.command for record in killed.catalog if record.end > cut and record.command is not None]
            # The last commands are about users, each of them about another one; the very last deletes one again.
            missing = [command for command in killed.commands if command not in opened.commands]
            assert all(command in gone for command in missing)
            again = open_directory(opened.root)
            assert (again.messages, again.commands, again.damages) == (opened.messages, opened.commands, [])


def test_a_segment_in_the_middle_is_cut(killed: Specimen) -> None:
    """No crash does this: something that was safe is gone, so it is reported, and what is left is kept."""
    file = killed.indexed[2]
    of_file = [record for record in killed.log if record.file == file]
    for cut in (0, 4, HEAD_BYTES, of_file[3].end, of_file[len(of_file) // 2].offset + 7, of_file[-1].end - 1):
        with killed.opened({file: killed.files[file][:cut]}) as opened:
            lost = {target for record in of_file if record.end > cut for target in record.targets}
            for queue, found in killed.messages.items():
                left = [kept for kept in found if (queue, kept.position) not in lost]
                assert [kept for kept in opened.messages.get(queue, []) if kept in found] == left, f"cut at {cut}"
            assert opened.damages or opened.unreadable, f"cut at {cut}: lost in silence"
            assert open_directory(opened.root).messages == opened.messages


@pytest.mark.parametrize("cut", [0, 4, HEAD_BYTES, HEAD_BYTES + 20])
def test_the_catalog_is_cut_at_its_start(killed: Specimen, cut: int) -> None:
    """It was whole when it got its name, so this is damage; what the queues had must not go with it."""
    file = killed.catalog_file
    with killed.opened({file: killed.files[file][:cut]}) as opened:
        assert opened.damages
        assert opened.messages == killed.messages


def test_the_catalog_is_gone(killed: Specimen) -> None:
    """With messages in the log there was one."""
    with killed.opened({killed.catalog_file: None}) as opened:
        assert opened.damages
        assert opened.messages == killed.messages


# ---- flipped bits


def flips(specimens: dict[str, Specimen], count: int, dice: random.Random) -> list[tuple[Specimen, str, int, int]]:
    """Files, offsets and bits, spread over everything that is on disk; most where most can go wrong."""
    chosen = []
    for number in range(count):
        specimen = dice.choice(list(specimens.values()))
        used = [name for name in specimen.unindexed if records_of(name, specimen.files[name])]
        indexes = [specimen.index_of(name) for name in specimen.indexed]
        kinds = [used, used, used, specimen.indexed, indexes, [specimen.catalog_file], [specimen.catalog_file]]
        file = "format" if number % 50 == 49 else dice.choice(kinds[number % len(kinds)])
        size = len(specimen.files[file])
        if file in used:
            size = max(record.end for record in specimen.log if record.file == file)
        chosen.append((specimen, file, dice.randrange(size), dice.randrange(8)))
    return chosen


def judge_flips(specimens: dict[str, Specimen], count: int, seed: int) -> None:
    for specimen, file, offset, bit in flips(specimens, count, random.Random(seed)):
        name = next(name for name, it in specimens.items() if it is specimen)
        try:
            judge_flip(specimen, file, offset, bit)
        except Exception as error:
            raise AssertionError(f"{name} {file} at {offset} bit {bit}, seed {seed}: {error!r}") from error


@pytest.mark.parametrize("part", range(_PARTS))
def test_flipped_bits(specimens: dict[str, Specimen], part: int) -> None:
    judge_flips(specimens, _FLIPS // _PARTS, seed_of(part))


def test_every_command_of_the_catalog_is_lost_once(killed: Specimen) -> None:
    for record in killed.catalog:
        judge_flip(killed, record.file, record.offset + 20, 3)


def test_first_and_last_record_of_every_segment(specimens: dict[str, Specimen]) -> None:
    for specimen in specimens.values():
        for file in specimen.segments:
            of_file = [record for record in specimen.log if record.file == file]
            for record in (of_file[:1] + of_file[-1:]) if of_file else []:
                judge_flip(specimen, file, record.offset + 9, 0)


# ---- what the peers stumbled over


@pytest.mark.parametrize("octets", [b"", b"LVRT", b"\0" * 65536, b"RMQWAL01" + b"\0" * 4088])
def test_a_newest_segment_that_is_none(killed: Specimen, octets: bytes) -> None:
    """Blank, four octets, NULs, and what another program wrote: made in advance, or its making was interrupted."""
    empty = killed.unindexed[-1]
    assert records_of(empty, killed.files[empty]) == []
    with killed.opened({empty: octets}) as opened:
        assert opened.messages == killed.messages
        again = open_directory(opened.root)
        assert (again.messages, again.damages) == (killed.messages, [])


@pytest.mark.parametrize("cut", [1, 31, 32, 64, 200])
def test_a_first_record_that_is_torn(killed: Specimen, cut: int) -> None:
    """The first batch of a new segment, half of it on disk when the power went: nobody was told that it is safe."""
    spare = killed.unindexed[-1]
    head = killed.files[spare][:HEAD_BYTES]
    record = killed.files[newest(killed)][HEAD_BYTES : HEAD_BYTES + cut]
    with killed.opened({spare: head + record + b"\0" * 4096}) as opened:
        assert opened.messages == killed.messages
        assert opened.damages == [], "a torn end is no damage"


def test_leftovers(killed: Specimen) -> None:
    """What a crash leaves beside the files: half-written ones, an index without its segment, pages."""
    index = killed.index_of(killed.indexed[0])
    changes: dict[str, bytes | None] = {"catalog/0000000002.new": b"", "format.new": b"", "log/copy.index": b"by hand"}
    changes |= {"log/0000000003.index.new": b"LVRT", "log/0000009999.index": killed.files[index]}
    changes |= {"pages/2147483650.segment": b"x" * 100}
    with killed.opened(changes) as opened:
        assert (opened.messages, opened.commands, opened.damages) == (killed.messages, killed.commands, [])
        names = {path.name for path in opened.root.rglob("*")}
        assert "0000009999.index" not in names and "0000000003.index.new" not in names
        again = open_directory(opened.root)
        assert (again.messages, again.damages) == (killed.messages, [])


@pytest.mark.parametrize("cut", [0, 4, 63, 64, 1000, -1])
def test_a_cut_index_costs_nothing(killed: Specimen, cut: int) -> None:
    for segment in (killed.indexed[0], killed.indexed[-1]):
        index = killed.index_of(segment)
        with killed.opened({index: killed.files[index][:cut]}) as opened:
            assert (opened.messages, opened.damages) == (killed.messages, [])


def test_the_index_of_another_segment(killed: Specimen) -> None:
    one, other = (killed.index_of(segment) for segment in killed.indexed[:2])
    with killed.opened({one: killed.files[other]}) as opened:
        assert (opened.messages, opened.damages) == (killed.messages, [])


def test_every_index_is_gone(killed: Specimen) -> None:
    with killed.opened({killed.index_of(segment): None for segment in killed.indexed}) as opened:
        assert (opened.messages, opened.damages) == (killed.messages, [])


def test_copies_of_an_interrupted_compaction_are_one_message(killed: Specimen) -> None:
    """The records of the oldest segment were copied to the end, and the crash came before it was deleted."""
    directory_salt = salt_of(killed)
    spare = killed.unindexed[-1]
    sequence = killed.log[-1].sequence
    octets = bytearray()
    oldest = killed.files[killed.indexed[0]]
    placed = [record for record in records_of(killed.indexed[0], oldest) if record.kind == MESSAGE]
    live = {(queue, kept.position) for queue, found in killed.messages.items() for kept in found}
    for record in [record for record in placed if live.issuperset(record.targets)][:40]:
        sequence += 1
        copy = bytearray(oldest[record.offset : record.offset + (record.length + 7 & ~7)])
        copy[8:16] = sequence.to_bytes(8, "big")
        octets += copy
    salt = file_salt(directory_salt, SEGMENT, int(Path(spare).stem))
    changes: dict[str, bytes | None] = {spare: killed.files[spare][:HEAD_BYTES] + bytes(sealed(octets, salt))}
    with killed.opened(changes) as opened:
        assert (opened.messages, opened.damages) == (killed.messages, [])
    # The old segment gone as well: what was copied is where the copies are.
    with killed.opened(changes | {killed.indexed[0]: None, killed.index_of(killed.indexed[0]): None}) as opened:
        kept = {kept for found in opened.messages.values() for kept in found}
        assert kept <= {kept for found in killed.messages.values() for kept in found}


def salt_of(specimen: Specimen) -> int:
    return int(specimen.files["format"].split(b"salt ")[1][:8], 16)


def test_the_format_file_is_gone(killed: Specimen) -> None:
    for octets in (None, b"", b"leveret"):
        with killed.opened({"format": octets}) as opened:
            assert opened.messages == killed.messages
            assert len(opened.damages) == 1
            assert open_directory(opened.root).damages == []


# ---- refusals


def test_a_newer_format_is_refused(killed: Specimen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = layout.FORMAT_VERSION + 1
    monkeypatch.setattr(layout, "FORMAT_VERSION", newer)
    line = layout.format_line(salt_of(killed)).encode()
    monkeypatch.undo()
    root = killed.write(tmp_path / "data", {"format": line})
    for _ in range(2):
        # Twice, because a refused start must not keep the lock.
        with pytest.raises(StartupError, match=rf"data of format {newer}; this Leveret reads format {newer - 1}\. "):
            Store(root, StoreSettings(), lambda: 1)
    assert Specimen.files_of(root) == killed.files | {"format": line}, "a refused directory is left as it is"


def test_a_second_broker_is_refused(tmp_path: Path) -> None:
    settings: dict[str, object] = {"data_dir": str(tmp_path)}
    with Broker(settings):
        text = rf"in use by another broker \(process {os.getpid()}\)"
        with pytest.raises(StartupError, match=text):
            Broker(settings).start()
        with pytest.raises(StartupError, match=text):
            Store(tmp_path, StoreSettings(), lambda: 1)
    with Broker(settings):
        pass


# ---- crashes during recovery


class Crash(BaseException):
    """The end of the process, as far as recovery can tell."""


class Lock(DirectoryLock):
    """The lock of a process that may end without letting go of it."""

    held = True

    def release(self) -> None:
        self.held = False
        super().release()


class Steps:
    """Counts what recovery does to files, and ends it at one of these steps: before, half through or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, crash_at: int, when: str) -> None:
        self.count = 0
        self._crash_at = crash_at
        self._when = when
        self._locks: list[Lock] = []
        for module in (recovery, catalog_log, layout, segment_files, damage):
            for name in ("cut_file", "remove_files", "replace_file", "create_file", "sync_directory"):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, self._step(getattr(module, name)))
        monkeypatch.setattr(layout, "DirectoryLock", self._lock)

    def _lock(self, path: Path) -> "Lock":
        self._locks.append(Lock(path))
        return self._locks[-1]

    def _step(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(path: Any, *rest: Any) -> Any:
            self.count += 1
            if self.count != self._crash_at:
                return work(path, *rest)
            if self._when == "half":
                if work.__name__ == "replace_file":
                    path.with_name(path.name + ".new").write_bytes(rest[0][: len(rest[0]) // 2])
                elif work.__name__ == "create_file":
                    path.write_bytes(rest[0][:4])
                elif work.__name__ == "remove_files" and path:
                    path[0].unlink(missing_ok=True)
            elif self._when == "after":
                work(path, *rest)
            raise Crash

        return run

    def die(self) -> None:
        """What the system does for a process that is gone."""
        for lock in self._locks:
            if lock.held:
                lock.release()


def torn(specimen: Specimen) -> dict[str, bytes | None]:
    """A torn end, damage in the middle of log and catalog, a damaged format file, an index and a segment too few."""
    log = bytearray(specimen.files[specimen.log[-1].file][: specimen.log[-1].offset + 9])
    live = {(queue, kept.position) for queue, found in specimen.messages.items() for kept in found}
    in_file = [record for record in specimen.log if record.file == specimen.log[-1].file and record.kind == MESSAGE]
    log[next(record.offset for record in in_file if live.issuperset(record.targets)) + 40] ^= 1
    catalog = bytearray(specimen.files[specimen.catalog_file])
    catalog[specimen.catalog[-4].offset + 40] ^= 1
    return {
        specimen.log[-1].file: bytes(log),
        specimen.catalog_file: bytes(catalog),
        "format": b"leveret data",
        specimen.index_of(specimen.indexed[1]): b"",
        "log/0000009999.index": b"",
    }


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_recovery_is_interrupted_at_every_step(specimens: dict[str, Specimen], when: str) -> None:
    specimen = specimens["unindexed"]
    changes = torn(specimen)
    with specimen.opened(changes) as opened:
        expected = opened
    assert expected.damages and expected.messages != specimen.messages
    crash_at = 0
    while interrupt(specimen, changes, crash_at := crash_at + 1, when, expected.messages, expected.commands):
        pass
    assert crash_at > 15


def interrupt(
    specimen: Specimen, changes: dict[str, bytes | None], crash_at: int, when: str, messages: object, commands: object
) -> bool:
    """Whether there was such a step. The second recovery finds what the first would have found."""
    with pytest.MonkeyPatch.context() as monkeypatch, specimen.place() as root:
        specimen.write(root, changes)
        steps = Steps(monkeypatch, crash_at, when)
        try:
            open_directory(root)
        except Crash:
            steps.die()
        else:
            return False
        monkeypatch.undo()
        opened = open_directory(root)
        assert opened.messages == messages, f"after a crash {when} step {crash_at}"
        assert opened.commands == commands, f"after a crash {when} step {crash_at}"
        again = open_directory(root)
        assert (again.messages, again.damages) == (messages, [])
    return True


# ---- the judges turn red


class BlindScan:
    """A scan that does not look at checksums: whatever has a length is good."""

    def __init__(self, salt: int) -> None:
        self.salt, self.scan = salt, Scan(salt)

    def run(self, data: bytes, start: int) -> None:
        octets = bytearray(data)
        at = start
        while at + 32 <= len(octets):
            length = int.from_bytes(octets[at + 4 : at + 8], "big")
            if not 32 <= length <= len(octets) - at:
                break
            octets[at : at + length] = sealed(octets[at : at + length] + bytes(-length % 8), self.salt)[:length]
            at += (length + 7) & ~7
        self.scan.run(bytes(octets), start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scan, name)


def drop_all_behind_damage(self: Survey, number: int, _synced: int) -> None:
    found, scan = self.scans[number].found, self.scans[number].scan
    for start, end, _ in scan.gaps[:1]:
        self._damage(found.path, start, end - start, "the rest of the log is thrown away")
        self._cut(number, start, TORN)


def report_nothing(self: DamageReport, *_facts: object) -> None:
    """Damage is passed over in silence."""


def keep_nothing(self: DamageReport, path: Path) -> Path:
    return path


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (survey, "Scan", BlindScan),
        (catalog_log, "Scan", BlindScan),
        (Survey, "_judge", drop_all_behind_damage),
        (DamageReport, "add", report_nothing),
        (DamageReport, "keep", keep_nothing),
    ],
)
def test_flips_find_a_broken_recovery(
    specimens: dict[str, Specimen], monkeypatch: pytest.MonkeyPatch, owner: object, name: str, broken: object
) -> None:
    monkeypatch.setattr(owner, name, broken)
    # Found by a judge, or by a start that fails; not by a mistake of what was broken here.
    with pytest.raises(AssertionError, match=r"seed 1: (AssertionError|StartupError)\("):
        judge_flips(specimens, 100, 1)


def test_cuts_find_a_reader_that_trusts_lengths(killed: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose end was written in another order than it stands: the length is there, the body is not."""
    file = newest(killed)
    last = [record for record in killed.log if record.file == file and record.kind == MESSAGE][-1]
    body_end = last.end - 16 * len(last.targets)
    # With what ends its batch: else it would be nothing anyway.
    batch_end = next(record.end for record in killed.log if record.sequence == last.sequence + 1)
    hole = bytearray(killed.files[file][:batch_end])
    hole[body_end - len(last.body) : body_end] = bytes(len(last.body))
    left = [record for record in killed.log if record.file != file or record.end <= last.offset]
    expected = messages_in(finished(left), set(killed.queue_ids.values()))
    with killed.opened({file: bytes(hole)}) as opened:
        assert (opened.messages, opened.unreadable, opened.damages) == (expected, [], [])
    monkeypatch.setattr(survey, "Scan", BlindScan)
    with killed.opened({file: bytes(hole)}) as opened:
        assert (opened.messages, opened.unreadable) != (expected, [])
