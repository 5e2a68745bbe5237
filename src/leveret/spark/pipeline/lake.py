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
    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

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
