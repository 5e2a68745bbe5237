"""Where a pipeline under test reads and writes: what its driver, its publisher and its judge must agree on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["FILES", "JOBS", "LETTERS", "PARTITIONS", "SOURCE", "TARGET", "OffsetSpec"]

# A super stream that the publisher fills, and the stream that everything ends in.
SOURCE, PARTITIONS, TARGET = "orders", 2, "returned"
# The stream that dead letters flow into.
LETTERS = "letters"
# Which pipeline it is: into Spark's own Parquet files and back into a stream, or the jobs of the product.
FILES, JOBS = "files", "jobs"
QUERIES = {FILES: ("lake", "back"), JOBS: ("analytics", "archive", "deadletters")}


@dataclass(frozen=True)
class OffsetSpec:
    url: str
    root: str
    # Rows of one micro-batch: few, so that there are many batches to be interrupted.
    rows_per_batch: int = 200
    pipeline: str = FILES

    @property
    def queries(self) -> tuple[str, ...]:
        """Their names; the first reads the source, and is the slowest that does."""
        return QUERIES[self.pipeline]

    @property
    def lake(self) -> str:
        return f"{self.root}/lake"

    def checkpoint(self, query: str) -> Path:
        return Path(self.root) / "checkpoints" / query

    def batches(self, query: str) -> int:
        """How many batches a query has finished, told from its checkpoint."""
        commits = self.checkpoint(query) / "commits"
        done = [int(path.name) for path in commits.glob("*") if path.name.isdigit()] if commits.exists() else []
        return max(done) + 1 if done else 0

    def forget_last_batch(self, query: str) -> None:
        """As if the driver had been killed after the batch's last row and before its commit."""
        last = self.batches(query) - 1
        commits = self.checkpoint(query) / "commits"
        (commits / str(last)).unlink()
        # Its checksum.
        (commits / f".{last}.crc").unlink(missing_ok=True)

    @property
    def findings(self) -> Path:
        """Where the driver writes down what is in the lake in the end."""
        return Path(self.root) / "findings.json"

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> OffsetSpec:
        return cls(**json.loads(path.read_text()))
