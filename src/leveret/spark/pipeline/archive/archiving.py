"""The archive: every message of the streams that are named, in Parquet files by stream and date, each exactly once.

    <lake>/archive/landing/...                                  batches as they came, until they are compacted
    <lake>/archive/compacted/stream=<name>/date=<day>/run=.../  in few files, sorted by offset
    <lake>/archive/manifest/                                    which of them count

Read it with read_archive, which knows what counts. Other tools take the runs that the newest manifest names: a run that
was replaced stays for an hour.

The date is the day (UTC) on which the broker took the message. RabbitMQ does not tell, and a queue neither: there it is
the day of the publisher's own timestamp, and if that is missing or makes no sense, the day on which the message is
archived.

Exactly once: a micro-batch is a range of offsets that Spark's checkpoint fixes before it runs, and it counts when its
mark is set, once (landing.py). Spark's own file sink is not used: its log of files grows for ever, its files could not
be compacted, and it passes over a batch that is run again, in which a queue may have given other messages.

Queues, such as `leveret.archive` to which the broker moves dead letters that are older than a day, are taken with the
option `queue` and emptied by that. That is at least once: what was taken and not acknowledged comes again after a
crash. Messages with a message_id are then known and passed over (drained.py), others are there twice. The column offset
has a number that the archive gives. If `leveret.archive` is declared as a stream, name it with the option `stream`;
nothing comes twice then.

Each batch is a few files, and those who read the archive look at all of them: the command compacts it every hour
(self_compaction.py). Where start_archive is called by other programs, compact it that often too. The name of a stream,
as it stands in a path, may have 248 octets on most file systems of one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DateType, StructField, StructType

from leveret.spark.errors import InvalidOption
from leveret.spark.pipeline.archive.drained import numbered, without_known
from leveret.spark.pipeline.archive.landing import EMPTY, Landed, Landing
from leveret.spark.pipeline.archive.manifest import Manifest, Manifests
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles
from leveret.spark.schema import COLUMNS

__all__ = ["ARCHIVED", "read_archive", "read_compacted", "read_landed", "start_archive"]

ARCHIVED = StructType([*COLUMNS.fields, StructField("date", DateType())])
QUERY_ID = "sql.streaming.queryId"
# A stream that has grown for a year is not to be one batch.
BATCH_ROWS = 500_000
# A queue may give again what was in the last of its batches, and in smaller pieces.
KNOWN_BATCHES = 8
LANDED_MAX = 1000
DAY_US = 86_400_000_000


def start_archive(
    spark: SparkSession,
    lake: Lake,
    source: Mapping[str, str],
    *,
    trigger: Mapping[str, Any],
    name: str = "archive",
    landed_before: set[int] | None = None,
) -> StreamingQuery:
    """Archives what `source` names: options of the connector with one of stream, superStream, streamPattern and queue.

    Begins with the oldest message there is, unless startingOffsets says otherwise, and goes on from its checkpoint
    after that. `name` is that of the query, its checkpoint and its group at the broker: another one for each archive
    that runs. Batches that Spark runs again although they have landed are not read again; their numbers are added to
    `landed_before`, for whoever compares rows with offsets."""
    given = {option.lower() for option in source}
    if "columns" in given:
        raise InvalidOption("the option columns is of no use here: the archive keeps whole messages")
    from_queue = "queue" in given
    defaults: dict[str, str] = {}
    if not from_queue:
        # A queue's batches have a limit already: they go through the driver.
        defaults = {"maxOffsetsPerTrigger": str(BATCH_ROWS), "groupName": f"leveret-{name}"}
        if "startingtimestamp" not in given:
            defaults["startingOffsets"] = "earliest"
    options = {**source, **{option: value for option, value in defaults.items() if option.lower() not in given}}
    messages = spark.readStream.format("leveret").options(**options).load()
    land = _lander(LakeFiles(spark), lake, from_queue, set() if landed_before is None else landed_before)
    writer = messages.writeStream.foreachBatch(land).queryName(name).option("checkpointLocation", lake.checkpoint(name))
    return writer.trigger(**trigger).start()


def _lander(
    files: LakeFiles, lake: Lake, from_queue: bool, landed_before: set[int]
) -> Callable[[DataFrame, int], None]:
    landing, manifests = Landing(files, lake), Manifests(files, lake)
    # What this checkpoint has landed, the newest last. Looked for once: nobody else lands batches of it.
    landed: list[Landed] = []

    def land(batch: DataFrame, batch_id: int) -> None:
        spark = batch.sparkSession
        job = spark.sparkContext.getLocalProperty(QUERY_ID)
        assert job is not None, "a batch belongs to a query"
        if not landed:
            compacted = manifests.read().compacted(job)
            landed.extend(landing.landed(job) or [Landed(job, compacted.number, compacted.batch, EMPTY)])
        newest = landed[-1]
        if not from_queue and batch_id <= newest.batch:
            # It has landed, and Spark did not come to write that down. A range of offsets has the same messages.
            landed_before.add(batch_id)
            return
        rows = batch.withColumn("date", _day())
        if from_queue:
            known = [one for one in landed if not one.is_empty][-KNOWN_BATCHES:]
            # Compaction may have taken the older ones away.
            known = [one for one in known if files.exists(landing.folder(job, one.attempt))]
            rows = without_known(numbered(rows), read_landed(spark, landing, known))
        attempt = landing.new_attempt()
        rows.write.partitionBy("stream", "date").parquet(landing.folder(job, attempt))
        landed.append(landing.commit(job, newest.number + 1, batch_id, attempt))
        if len(landed) > LANDED_MAX:
            del landed[: -LANDED_MAX // 2]

    return land


def _day() -> Column:
    """The day of a message in UTC, whatever zone the session has."""
    today = f.current_timestamp()
    sensible = (f.col("message_timestamp") >= f.timestamp_micros(f.lit(0))) & (
        f.col("message_timestamp") < today + f.expr("interval 1 day")
    )
    moment = f.coalesce("timestamp", f.when(sensible, f.col("message_timestamp")), today)
    return f.date_from_unix_date(f.floor(f.unix_micros(moment) / DAY_US).cast("int"))


def read_archive(spark: SparkSession, lake: Lake) -> DataFrame:
    """All archived messages, each once: the columns of the connector, and `date`.

    It shows the archive at this moment; read it again to see what has come since. Files that compaction has replaced
    are deleted an hour later, so do not hold on to the DataFrame for longer than that."""
    files = LakeFiles(spark)
    landing, manifests = Landing(files, lake), Manifests(files, lake)
    # In this order: what is compacted between the two looks is in the manifest, and so it is not read from the landing.
    landed = [one for job in landing.jobs() for one in landing.landed(job)]
    manifest = manifests.read()
    fresh = [one for one in landed if one.number > manifest.compacted(one.job).number]
    found = read_compacted(spark, lake, manifest).unionByName(read_landed(spark, landing, fresh))
    return found.where(f.col("date") >= manifest.kept_from) if manifest.kept_from else found


def read_compacted(
    spark: SparkSession, lake: Lake, manifest: Manifest, folders: Sequence[str] | None = None, merge: bool = False
) -> DataFrame:
    """The messages of these folders "stream=<name>/date=<day>", of all that there are if none are named."""
    root = f"{lake.archive}/compacted"
    wanted = manifest.runs if folders is None else folders
    return _read(
        spark, root, [f"{root}/{folder}/run={run}" for folder in wanted for run in manifest.runs[folder]], merge
    )


def read_landed(spark: SparkSession, landing: Landing, landed: Sequence[Landed], merge: bool = False) -> DataFrame:
    """The messages of these batches."""
    folders = [landing.folder(one.job, one.attempt) for one in landed if not one.is_empty]
    return _read(spark, landing.root, folders, merge)


def _read(spark: SparkSession, root: str, folders: list[str], merge: bool) -> DataFrame:
    """With the columns that this version knows: those that older files do not have are null. `merge` brings also those
    that a newer version has written."""
    if not folders:
        return spark.createDataFrame([], ARCHIVED)
    schema = ARCHIVED
    if merge:
        found = spark.read.option("basePath", root).option("mergeSchema", "true").parquet(*folders).schema
        # Those that are folders have the types that Spark guesses from names: a stream "007" is no number.
        more = [one for one in found.fields if one.name not in (*ARCHIVED.names, "job", "attempt", "run")]
        schema = StructType([*ARCHIVED.fields, *more])
    return spark.read.schema(schema).option("basePath", root).parquet(*folders).select(*schema.names)
