"""Where the lake keeps what: one folder with the tables, the checkpoints and what belongs to them.

    <lake>/archive/...          raw messages, by stream and date                           (archive)
    <lake>/silver/<table>/...   parsed and without duplicates                               (analytics)
    <lake>/gold/<table>/...     figures by the minute                                       (analytics, deadletters)
    <lake>/checkpoints/<job>/   how far each job is; never touched by hand
    <lake>/reports/             HTML pages

The lake may be any place that Spark can write to: a folder, hdfs://, s3a://."""

from __future__ import annotations

__all__ = ["Lake"]


class Lake:
    def __init__(self, root: str, single_writer: bool = False) -> None:
        """`single_writer` says that nothing else compacts, expires or replays it meanwhile: for object stores, which
        cannot tell several writers apart (lake_files.py)."""
        self.root = root.rstrip("/")
        self.single_writer = single_writer

    @property
    def archive(self) -> str:
        return f"{self.root}/archive"

    def silver(self, table: str) -> str:
        return f"{self.root}/silver/{table}"

    def gold(self, table: str) -> str:
        return f"{self.root}/gold/{table}"

    def checkpoint(self, job: str) -> str:
        return f"{self.root}/checkpoints/{job}"

    @property
    def reports(self) -> str:
        return f"{self.root}/reports"
