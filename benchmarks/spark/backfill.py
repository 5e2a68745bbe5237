"""Reads a whole super stream again and again until its input ends: what publishers are measured beside.

python -m benchmarks.spark.backfill URL"""

from __future__ import annotations

import select
import sys

from leveret.spark.pipeline.session import open_session


def main() -> None:
    spark = open_session("backfill", "local[2]")
    table = spark.read.format("leveret").options(url=sys.argv[1], superStream="bench").load()
    while True:
        table.write.format("noop").mode("overwrite").save()
        # The first time is for Spark to start its workers.
        print("read", flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
    spark.stop()


if __name__ == "__main__":
    main()
