"""What a driver finds in its lake in the end, on its way to the judge: a file of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Findings"]


@dataclass(frozen=True)
class Findings:
    # The ids of the messages in each table, as often as they are there.
    ids: dict[str, list[int]]
    # Where tables do not agree with each other, in words.
    wrong: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Findings:
        return cls(**json.loads(path.read_text()))
