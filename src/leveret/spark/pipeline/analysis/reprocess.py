"""Sending letters back by the broker's own reprocessing: out of a dead-letter queue, in which they do not stay.

The broker moves a letter in one step, so it is in one place at any time, whatever crashes. It chooses by reason,
queue, exchange, routing key and the like, not by SQL. `reprocess_selected` takes SQL nevertheless: it looks at what
waits in the queue, and does it if the chosen letters are all there are of some of these groups; else it says so and
does nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.broker_client import Broker
from leveret.spark.errors import InvalidOption, SourceFailed
from leveret.spark.management import get, post
from leveret.spark.options import READ, read_options
from leveret.spark.pipeline.analysis.letters import as_letters

__all__ = ["Reprocessed", "reprocess", "reprocess_selected"]

MODES = ("original_exchange", "original_queue", "target")
LOOK_S = 0.5
# Names of the broker's filter, and the columns that have the same.
GROUP = {
    "reason": "first_death_reason",
    "queue": "first_death_queue",
    "exchange": "origin_exchange",
    "routing_key": "origin_routing_key",
}


@dataclass(frozen=True)
class Reprocessed:
    """How a job of the broker's ended. `failed` letters stay in the queue; `last_error` says why the last of them
    does."""

    id: str
    state: str
    matched: int
    moved: int
    failed: int
    last_error: str | None


def reprocess(
    source: Mapping[str, str],
    *,
    chosen: Mapping[str, Any] | None = None,
    mode: str = "original_exchange",
    exchange: str = "",
    routing_key: str = "",
    limit: int = 0,
    rate: float = 0,
    dry_run: bool = False,
    on_progress: Callable[[Mapping[str, Any]], None] | None = None,
) -> Reprocessed:
    """Has the broker move letters of the queue that the options `source` name, and waits until it has. `chosen` is
    the filter of its API, such as {"queue": "orders", "reason": "rejected"}; all letters without one. `mode` is
    original_exchange, original_queue, or target, which takes `exchange` and `routing_key`. `on_progress` is told
    about the job every half second. Raises SourceFailed if the broker does not do it, or gives up."""
    if mode not in MODES:
        raise InvalidOption(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
    options = read_options(source, READ)
    queue = options["queue"]
    if queue is None:
        raise InvalidOption("the option queue is missing: it names the queue that the letters are in")
    broker = Broker(options, "leveret-spark reprocess")
    doing = f"reprocessing the queue {queue!r}"
    asked = {
        "mode": mode,
        "exchange": exchange,
        "routing_key": routing_key,
        "filter": dict(chosen or {}),
        "limit": limit,
    }
    path = f"/api/queues/{quote(broker.vhost, safe='')}/{quote(queue, safe='')}/reprocess"
    job = post(broker, path, {**asked, "rate": rate, "dry_run": dry_run, "wait": LOOK_S}, doing)
    while job["state"] == "running":
        if on_progress is not None:
            on_progress(job)
        time.sleep(LOOK_S)
        job = get(broker, f"/api/tasks/{quote(job['id'], safe='')}", doing)
    if on_progress is not None:
        on_progress(job)
    if job["state"] != "done":
        raise SourceFailed(f"{doing} ended as {job['state']} after {job['moved']} letters: {job['last_error']}")
    return Reprocessed(job["id"], job["state"], job["matched"], job["moved"], job["failed"], job["last_error"])


def reprocess_selected(
    spark: SparkSession, source: Mapping[str, str], where: str, *, letters: DataFrame | None = None, **how: Any
) -> list[Reprocessed]:
    """Has the broker move the letters of a queue for which `where`, an SQL condition on the columns of letters, is
    true, in one job for each group of reason, queue, exchange and routing key. Raises InvalidOption, and moves
    nothing, if a group is chosen in part. Letters of these groups that come before a job begins go with the others.
    `how` is as for reprocess."""
    if letters is None:
        letters = as_letters(spark.read.format("leveret").options(**source).load())
    is_chosen = F.coalesce(F.expr(where), F.lit(False))
    groups = letters.groupBy(*GROUP.values()).agg(F.count("*").alias("letters"), F.count_if(is_chosen).alias("chosen"))
    found = [row.asDict() for row in groups.where("chosen > 0").collect()]
    for group in found:
        named = {name: group[column] for name, column in GROUP.items()}
        text = ", ".join(f"{name} {value!r}" for name, value in named.items())
        if None in named.values():
            raise InvalidOption(
                f"{group['chosen']} chosen letters do not tell how they died ({text}): send them with replay_selected"
            )
        if group["chosen"] < group["letters"]:
            raise InvalidOption(
                f"{group['chosen']} of {group['letters']} letters with {text} are chosen: the broker can tell groups "
                "apart, not letters in a group; choose whole groups, or send the letters with replay_selected"
            )
    return [reprocess(source, chosen={name: group[column] for name, column in GROUP.items()}, **how) for group in found]
