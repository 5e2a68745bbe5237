"""How quick the web interface is with many queues: first paint, a page turn, memory of a tab with live charts.

python -m benchmarks.ui [--queues 10000] [--seconds 60]; needs chromium and the packages of requirements/test.txt."""

from __future__ import annotations

import argparse
import time

from leveret.catalog import commands
from leveret.catalog.records import QueueRecord
from leveret.testing import Broker
from tests.ui.chromium import Watched, launched

TURNS = 20


def make_queues(broker: Broker, count: int) -> None:
    def declare(node: object) -> None:
        for number in range(count):
            record = QueueRecord("/", f"queue-{number:06}", "classic", False, False, 0, {})
            node.broker.apply(commands.DeclareQueue(record))  # type: ignore[attr-defined]

    broker.call(declare)


def first_paint_ms(watched: Watched) -> tuple[float, float]:
    """Of the list of queues, loaded anew: the browser's first contentful paint, and when the rows were there."""
    page = watched.page
    page.reload()
    page.get_by_role("link", name="queue-000000").wait_for()
    rows = page.evaluate("performance.now()")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return float(paint), float(rows)


def page_turns_ms(watched: Watched) -> list[float]:
    """From the click to the first row of the next page."""
    page = watched.page
    found = []
    for turn in range(1, TURNS + 1):
        name = f"queue-{turn * 50:06}"
        found.append(
            page.evaluate(
                """async name => {
                    const begun = performance.now();
                    document.querySelector('[aria-label="Next page"]').click();
                    while (!document.querySelector('tbody')?.textContent.startsWith(name))
                        await new Promise(requestAnimationFrame);
                    return performance.now() - begun;
                }""",
                name,
            )
        )
    return sorted(float(one) for one in found)


def heap_bytes(watched: Watched) -> int:
    session = watched.context.new_cdp_session(watched.page)
    session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument(
        "--seconds", type=float, default=60, help="how long charts run before memory is looked at again"
    )
    wanted = parser.parse_args()
    with Broker({"management.sample_interval_s": 1.0}) as broker, launched() as browser:
        make_queues(broker, wanted.queues)
        watched = Watched(browser, broker.management_url)
        watched.log_in(place="queues")
        paint, rows = first_paint_ms(watched)
        print(f"{wanted.queues} queues: first paint {paint:.0f} ms, rows {rows:.0f} ms")
        turns = page_turns_ms(watched)
        print(f"page turn: median {turns[len(turns) // 2]:.0f} ms, worst of {TURNS} {turns[-1]:.0f} ms")
        watched.open("overview")
        watched.page.get_by_role("img", name="Message rates").wait_for()
        time.sleep(5)
        before = heap_bytes(watched)
        time.sleep(wanted.seconds)
        after = heap_bytes(watched)
        print(f"heap of the overview: {before / 1e6:.1f} MB, after {wanted.seconds:.0f} s {after / 1e6:.1f} MB")
        watched.close()


if __name__ == "__main__":
    main()
