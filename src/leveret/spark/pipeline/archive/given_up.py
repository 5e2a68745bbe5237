"""The files in which the broker archives dead letters that it has given up (`dead_letters.archive_dir`), as tables.

The broker writes each letter at least once: a crash may archive one again, under the same id. `read_given_up` has each
id once. `as_messages` gives them the columns of the connector, so that whatever reads messages reads these: the letters
of analysis/letters.py, or the publisher. Never writes anything."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.schema import COLUMNS

__all__ = ["FILE_COLUMNS", "as_messages", "read_given_up"]

_DEATH = (
    "struct<queue:string,reason:string,count:bigint,exchange:string,routing_keys:array<string>,time:timestamp,"
    "original_expiration:string>"
)
_PROPERTIES = (
    "struct<content_type:string,content_encoding:string,delivery_mode:int,priority:int,correlation_id:string,"
    "reply_to:string,expiration:string,message_id:string,timestamp:bigint,type:string,user_id:string,app_id:string,"
    "cluster_id:string>"
)
# As they stand in the files; headers are whatever a publisher has made up, so they are read as the text of their JSON.
FILE_COLUMNS = (
    "version int, id string, archived_at timestamp, node string, job string, vhost string, queue string, "
    "position bigint, arrived_at timestamp, first_death_at timestamp, source_queue string, source_exchange string, "
    "source_routing_keys array<string>, reason string, death_count bigint, replay_count bigint, "
    f"deaths array<{_DEATH}>, exchange string, routing_key string, properties {_PROPERTIES}, headers string, "
    "wire_properties string, body_bytes bigint, body string"
)


def read_given_up(spark: SparkSession, path: str) -> DataFrame:
    """Every archived letter once, with `body` and `wire_properties` as octets and the day of its file in `date`. A line
    that is no JSON fails the read: the broker writes none."""
    rows = spark.read.schema(f"{FILE_COLUMNS}, date date").option("mode", "FAILFAST").json(path)
    once = rows.dropDuplicates(["id"])
    return once.withColumns({"body": F.unbase64("body"), "wire_properties": F.unbase64("wire_properties")})


def as_messages(letters: DataFrame) -> DataFrame:
    """The same in the columns of the connector. `stream` is the queue, `offset` the position in it, `timestamp` when
    the letter came into it."""
    first = F.try_element_at("deaths", F.lit(-1))
    last = F.try_element_at("deaths", F.lit(1))
    made: dict[str, Column] = {
        "stream": F.col("queue"),
        "partition": F.lit(0),
        "offset": F.col("position"),
        "timestamp": F.col("arrived_at"),
        "message_timestamp": F.timestamp_seconds("properties.timestamp"),
        "headers_json": F.col("headers"),
        "headers": F.from_json("headers", "map<string,string>"),
        "first_death_queue": F.coalesce("source_queue", first["queue"]),
        "first_death_reason": F.coalesce("reason", first["reason"]),
        "first_death_exchange": F.coalesce("source_exchange", first["exchange"]),
        "last_death_queue": last["queue"],
        "last_death_reason": last["reason"],
        "last_death_exchange": last["exchange"],
    }
    of_letters = set(letters.columns)
    for field in COLUMNS.fields:
        if field.name not in made:
            own = field.name in of_letters
            made[field.name] = F.col(field.name) if own else F.col(f"properties.{field.name}")
    return letters.select(*(made[field.name].cast(field.dataType).alias(field.name) for field in COLUMNS.fields))
