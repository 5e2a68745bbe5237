"""A program of its own for test_source_batch.py: filters where Spark starts a new process for each of its workers, far
away from UTC.

Arguments: the broker's URL, the stream, a moment in microseconds."""

from __future__ import annotations

import sys

from leveret.spark.pipeline.session import open_session

url, stream, moment = sys.argv[1:]
spark = open_session("workers", "local[2]", {"spark.python.use.daemon": "false"})
for pushes in ("true", "false"):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushes)
    for zone in ("UTC", "Asia/Tokyo") if pushes == "true" else ("UTC",):
        spark.conf.set("spark.sql.session.timeZone", zone)
        reader = spark.read.format("leveret").options(url=url, columns="offset,timestamp", pushFilters="true")
        assert reader.load(stream).where("offset >= 5").count() == 5
        assert reader.load(stream).where(f"timestamp >= timestamp_micros({moment})").count() == 5
        assert reader.load(stream).where(f"timestamp < timestamp_micros({moment})").count() == 5
    sys.stdout.write(f"PUSHED {pushes}\n")
    sys.stdout.flush()
    if pushes == "true":
        # The other side counts what was read so far.
        sys.stdin.readline()
spark.stop()
