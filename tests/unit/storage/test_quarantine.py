"""The list of what was given up: every record once, on disk before anybody lets it go."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from leveret.storage import quarantine as quarantine_module
from leveret.storage.layout import Layout
from leveret.storage.quarantine import DAMAGED, UNREADABLE, GivenUp, Quarantine, read_list


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path)
    found.make()
    return found


def given_up(number: int, reason: str = UNREADABLE) -> GivenUp:
    return GivenUp("orders in vhost /", number, "log/0000000001.segment", number * 100, 90, reason)


def test_what_is_written_is_read_again(layout: Layout) -> None:
    quarantine = Quarantine(layout)
    assert quarantine.add([given_up(1), given_up(2, DAMAGED)]) == 2
    assert read_list(quarantine.path) == [given_up(1), given_up(2, DAMAGED)]
    assert quarantine.path.stat().st_mode & 0o777 == 0o600


def test_each_record_is_listed_once_over_starts(layout: Layout) -> None:
    """A reader of a stream meets it again, and so does the one after the next start."""
    first = Quarantine(layout)
    first.add([given_up(1)])
    assert first.add([given_up(1), given_up(2)]) == 1
    again = Quarantine(layout)
    assert again.add([given_up(2), given_up(1)]) == 0
    assert (first.records_total, again.records_total) == (2, 0)
    assert len(read_list(again.path)) == 2


def test_which_files_must_be_kept_is_known_after_a_start(layout: Layout) -> None:
    Quarantine(layout).add([given_up(1)])
    again = Quarantine(layout)
    assert again.has(layout.segment(1)) and not again.has(layout.segment(2))


def test_a_line_that_a_crash_has_cut_hides_nothing(layout: Layout) -> None:
    quarantine = Quarantine(layout)
    quarantine.add([given_up(1)])
    with quarantine.path.open("a") as file:
        file.write('{"queue": "orders in vh\n')
    Quarantine(layout).add([given_up(2)])
    assert read_list(quarantine.path) == [given_up(1), given_up(2)]


def test_what_cannot_be_written_is_not_listed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    quarantine = Quarantine(layout)
    quarantine.add([given_up(1)])

    def full(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(quarantine_module, "write_all", full)
        with pytest.raises(OSError, match="No space"):
            quarantine.add([given_up(2)])
    assert read_list(quarantine.path) == [given_up(1)]
    assert quarantine.add([given_up(2)]) == 1
    assert read_list(quarantine.path) == [given_up(1), given_up(2)]
