"""The catalog's log gets short again: when it has grown to many times what it started with, over however many runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leveret.storage import catalog_log
from leveret.storage.catalog_log import GROWN_FACTOR, CatalogLog
from leveret.storage.damage import DamageReport
from leveret.storage.layout import Layout

SALT = 9
SNAPSHOT = [b"s" * 100] * 10


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(catalog_log, "GROWN_BYTES_MIN", 500)
    layout = Layout(tmp_path)
    layout.make()
    return layout


def opened(layout: Layout) -> CatalogLog:
    log = CatalogLog(layout, SALT)
    log.load(DamageReport(layout))
    return log


def append(log: CatalogLog, *commands: bytes) -> None:
    for command in commands:
        log.append(command)
    data, offset = log.take()
    os.pwrite(log.fd, data, offset)
    log.synced()


def test_many_runs_that_add_little_each(layout: Layout) -> None:
    log = opened(layout)
    log.rewrite(SNAPSHOT)
    start = log._end
    runs = 0
    while not log.is_overgrown:
        log.close()
        log = opened(layout)
        append(log, b"c" * 100)
        runs += 1
        assert runs < 200, f"it has grown from {start} to {log._end} octets"
    assert log._end > GROWN_FACTOR * start
    log.close()
    log = opened(layout)
    assert log.is_overgrown, "at the start of the next run as well"
    log.rewrite(SNAPSHOT)
    assert not log.is_overgrown and log._end == start
    log.close()
    log = CatalogLog(layout, SALT)
    assert log.load(DamageReport(layout)) == SNAPSHOT
    assert not log.is_overgrown
    log.close()


def test_an_empty_snapshot(layout: Layout) -> None:
    log = opened(layout)
    log.rewrite([])
    log.close()
    log = opened(layout)
    append(log, *[b"c" * 100] * 3)
    log.add_evidence()
    append(log)
    log.close()
    log = opened(layout)
    assert not log.is_overgrown
    append(log, *[b"c" * 100] * 10)
    assert log.is_overgrown
    log.close()
