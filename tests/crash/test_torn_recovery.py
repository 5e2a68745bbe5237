"""Recovery of what a crash or damage left half: it finds the same however often it is interrupted."""

from pathlib import Path

import pytest

from leveret.core.log.records import command_record, sealed
from leveret.storage.file_head import SEGMENT, file_salt
from tests.crash.corruption import HEAD_BYTES, MESSAGE, Specimen, make_specimens
from tests.crash.test_corruption import interrupt, salt_of

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return make_specimens(tmp_path_factory.mktemp("specimens"))["killed"]


def test_acks_in_the_lost_end_of_a_segment_are_known_from_its_index(killed: Specimen) -> None:
    """A sealed segment is cut, its index is whole: no acknowledged message comes back."""
    file = killed.indexed[4]
    of_file = [record for record in killed.log if record.file == file]
    for cut in (0, 64, of_file[len(of_file) // 2].offset):
        with killed.opened({file: killed.files[file][:cut]}) as opened:
            assert opened.damages
            known = {(queue, kept) for queue, found in killed.messages.items() for kept in found}
            assert {(queue, kept) for queue, found in opened.messages.items() for kept in found} <= known, (
                f"cut at {cut}"
            )


def copy_of(specimen: Specimen, sequence: int, number: int) -> bytes:
    record = next(record for record in specimen.log if record.kind == MESSAGE)
    octets = bytearray(specimen.files[record.file][record.offset : record.offset + (record.length + 7 & ~7)])
    octets[8:16] = sequence.to_bytes(8, "big")
    at = record.length - 16 * len(record.targets)
    for i in range(len(record.targets)):
        octets[at + 16 * i + 8 : at + 16 * i + 16] = (10**6 + sequence).to_bytes(8, "big")
    return bytes(sealed(octets, file_salt(salt_of(specimen), SEGMENT, number)))


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_a_torn_batch_over_two_segments_goes_as_a_whole(killed: Specimen, when: str) -> None:
    """Its first record did not reach the disk, its second and, in the next segment, its third did. Wherever recovery is
    interrupted, the next one finds what an uninterrupted one would have found."""
    file, spare = killed.log[-1].file, killed.unindexed[-1]
    last = killed.log[-1]
    end = last.offset + (last.length + 7 & ~7)
    torn = killed.files[file][:end] + bytes(64) + copy_of(killed, last.sequence + 2, last.number)
    behind = killed.files[spare][:HEAD_BYTES] + copy_of(killed, last.sequence + 3, int(Path(spare).stem))
    changes: dict[str, bytes | None] = {file: torn, spare: behind}
    with killed.opened(changes) as opened:
        assert (opened.messages, opened.damages) == (killed.messages, [])
    crash_at = 0
    while interrupt(killed, changes, crash_at := crash_at + 1, when, killed.messages, killed.commands):
        pass


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_the_end_of_a_batch_without_its_start_goes(killed: Specimen, when: str) -> None:
    """The batch went over two segments. Of the first nothing reached the disk, of the second everything, also the notes
    at its end: what they say of messages must not be believed, because what replaces these is lost."""
    spare, last = killed.unindexed[-1], killed.log[-1]
    number = int(Path(spare).stem)
    notes = sealed(command_record(last.sequence + 3, last.sequence, b""), file_salt(salt_of(killed), SEGMENT, number))
    behind = killed.files[spare][:HEAD_BYTES] + copy_of(killed, last.sequence + 2, number) + bytes(notes)
    changes: dict[str, bytes | None] = {spare: behind}
    with killed.opened(changes) as opened:
        assert (opened.messages, opened.damages) == (killed.messages, [])
    crash_at = 0
    while interrupt(killed, changes, crash_at := crash_at + 1, when, killed.messages, killed.commands):
        pass
