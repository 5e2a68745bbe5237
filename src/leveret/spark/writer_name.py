"""Who writes: the writeId and the query, as they stand at the beginning of producers' names and message ids."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from leveret.spark.errors import WriteIdInUse
from leveret.spark.source_runs import Interval

__all__ = ["BATCH", "WriterName", "query_tag"]

# In the place of a query, for tables that are written in one go.
BATCH = "batch"
_TAG = re.compile(r"(q[0-9a-f]{12}|batch)#")
NAME_BYTES_MAX = 255
# What stands behind the label of a stream, and before and around it, in names and message ids.
OFFSET_BYTES, MARKS = 19, 3


def query_tag(query: str) -> str:
    """A streaming query's mark, which goes with its checkpoint."""
    return "q" + hashlib.blake2b(query.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True)
class WriterName:
    write_id: str
    # A query's, or BATCH.
    tag: str
    # Whether the user has chosen the writeId: others may have used it before.
    chosen: bool

    @property
    def prefix(self) -> str:
        """What the names of all that write with this writeId begin with."""
        return f"{self.write_id}/"

    def producer(self, what: str) -> str:
        # Names of one writer are a group to the stream: see core.stream.tracking.
        return f"{self.write_id}/{self.tag}#{what}"

    def message_ids(self, what: str) -> str:
        return f"{self.write_id}-{self.tag}-{what}"

    def label(self, batch: int, stream: str) -> str:
        """A batch's rows of a stream in our names: as they are called, or a digest of that where it would be too long.
        What another batch has of the same stream may be other rows: a join gives one message in several batches."""
        label = f"{batch}.{quote(stream, safe='')}"
        if len(self.producer(label).encode()) + OFFSET_BYTES + MARKS > NAME_BYTES_MAX:
            return "!" + hashlib.blake2b(label.encode(), digest_size=8).hexdigest()
        return label

    def intervals(self, producers: Mapping[str, int], target: str) -> dict[str, list[Interval]]:
        """What a stream has of our rows with `stream` and `offset`, by label. Raises WriteIdInUse if it has rows that
        another query has written with this writeId."""
        found: dict[str, list[Interval]] = {}
        for name, last in producers.items():
            tag = _TAG.match(name, len(self.prefix))
            if tag is None:
                continue
            if tag[1] != self.tag:
                raise WriteIdInUse(self._refusal(target, tag[1]))
            label, mark, start = name[tag.end() :].rpartition("@")
            if mark and start.isdecimal():
                found.setdefault(label, []).append(Interval(int(start), last))
        return found

    def _refusal(self, target: str, other: str) -> str:
        def who(tag: str) -> str:
            return "a batch write" if tag == BATCH else f"the streaming query {tag}"

        return (
            f"the writeId {self.write_id!r} is in use: the stream {target!r} has rows that {who(other)} published with "
            f"it, and this is {who(self.tag)}. A streaming query is known by its checkpoint: go on with the checkpoint "
            "that the writeId was used with, or give this query a writeId of its own (its rows are then published "
            "whatever the stream has)"
        )
