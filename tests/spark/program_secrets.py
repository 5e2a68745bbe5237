"""A program of its own for test_credentials.py: does everything with a password, and Spark writes down all it can.

Arguments: the broker's address, the user, the password, and a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from leveret.spark.pipeline.session import open_session

address, user, password, folder = sys.argv[1:]
events = Path(folder) / "events"
events.mkdir()
settings = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": str(events),
    "spark.eventLog.compress": "false",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}
spark = open_session("secrets", "local[2]", settings)
spark.sparkContext.setLogLevel("INFO")
ways = {
    "url": {"url": f"amqp://{user}:{password}@{address}/"},
    "options": {"url": f"amqp://{address}/", "user": user, "password": password},
}
for way, login in ways.items():
    table = spark.read.format("leveret").options(**login).load("guarded").where("offset > 2")
    assert table.count() == 7
    sink = table.selectExpr("body").write.format("leveret").options(**login).option("routingKey", "copies")
    sink.mode("append").save()
    growing = spark.readStream.format("leveret").options(**login, startingOffsets="earliest", groupName="g")
    copies = growing.load("guarded").selectExpr("body").writeStream.format("leveret").options(**login)
    copies = copies.option("routingKey", "copies").option("checkpointLocation", f"{folder}/checkpoint-{way}")
    copies.trigger(availableNow=True).start().awaitTermination(60)
    try:
        spark.read.format("leveret").options(**login).load("missing").collect()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is shown
        sys.stdout.write(f"FAILED AS IT SHOULD {error}\n")
spark.stop()
