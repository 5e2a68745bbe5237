"""Rows that could not be published, kept beside the others: Parquet files with a column `error` more."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Diverted"]


class Diverted:
    """The bad rows of one task. The file's name is the same if the task runs again, and so it is written over."""

    def __init__(self, folder: str | None, name: str) -> None:
        self._folder = folder
        self._name = name.replace("/", "_")
        self._tables: list[pa.RecordBatch] = []
        self.count = 0

    def add(self, table: pa.RecordBatch, failures: list[tuple[int, str]]) -> None:
        if not failures:
            return
        rows = table.take(pa.array([place for place, _ in failures]))
        self._tables.append(rows.append_column("error", pa.array([why for _, why in failures], pa.string())))
        self.count += len(failures)

    def close(self) -> None:
        if not self._tables:
            return
        assert self._folder is not None
        filesystem, folder = _filesystem(self._folder)
        filesystem.create_dir(folder, recursive=True)
        pq.write_table(pa.Table.from_batches(self._tables), f"{folder}/{self._name}.parquet", filesystem=filesystem)


def _filesystem(folder: str) -> tuple[Any, str]:
    from pyarrow import fs

    if urlsplit(folder).scheme in ("", "file"):
        return fs.LocalFileSystem(), str(Path(urlsplit(folder).path if folder.startswith("file:") else folder))
    found: tuple[Any, str] = fs.FileSystem.from_uri(folder)
    return found
