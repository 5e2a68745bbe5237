"""One case of one library, in a process of its own: prints its figures as a line of JSON."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, cast

from benchmarks.client.work import Library, Task, percentile


def main() -> None:
    name = sys.argv[1]
    task = Task(**json.loads(sys.argv[2]))
    library = cast(Library, importlib.import_module(f"benchmarks.client.{name}_worker"))
    done: Any = getattr(library, task.case)(task)
    if isinstance(done, float):
        print(json.dumps({"rate": task.messages / done}))
    else:
        # Of what was under way at once, each took that long.
        seconds = sum(done) / (task.concurrency if task.case == "publish" and name != "pika" else 1)
        figures = {"rate": len(done) / seconds}
        print(json.dumps({**figures, "p50_us": 1e6 * percentile(done, 50), "p99_us": 1e6 * percentile(done, 99)}))


if __name__ == "__main__":
    main()
