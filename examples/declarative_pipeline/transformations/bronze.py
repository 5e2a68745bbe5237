"""Bronze: messages as they came out of the streams, each once."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
URL = os.environ.get("LEVERET_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
STREAMS = os.environ.get("LEVERET_STREAMS", "orders,payments,shipments")
DEAD_LETTERS = os.environ.get("LEVERET_DEAD_LETTERS", "dead-letters")


def read(streams: str, group: str) -> DataFrame:
    options = {"url": URL, "stream": streams, "startingOffsets": "earliest", "groupName": group}
    return spark.readStream.format("leveret").options(**options).load()


@dp.table(comment="All messages of the shop's streams.")
def bronze_messages() -> DataFrame:
    return read(STREAMS, "declarative-messages")


@dp.table(comment="All dead letters.")
def bronze_dead_letters() -> DataFrame:
    return read(DEAD_LETTERS, "declarative-dead-letters")
