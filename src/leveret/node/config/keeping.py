"""The sections about messages: how they are kept, when publishers are held up, what becomes of dead letters."""

from typing import Annotated

from leveret.node.config.declaring import Section, said

# 1 PiB, exact as a float too.
BYTES_MOST = 2**50
# Ten years.
SECONDS_MOST = 10 * 365 * 24 * 3600
# A watermark such as 40 is a mistaken percentage: what is meant in bytes is more than this.
MEMORY_WATERMARK_BYTES_LEAST = 1024 * 1024


class StorageSettings(Section, frozen=True):
    """[storage] how messages are kept on disk"""

    segment_bytes: Annotated[int, said("Size of one file of the message log.", ge=64 * 1024, le=512 * 1024 * 1024)] = (
        16 * 1024 * 1024
    )
    sync: Annotated[
        bool,
        said("`false` confirms what is written but not synced: what the last moments brought is lost with the power."),
    ] = True


class AlarmSettings(Section, frozen=True):
    """[alarms] when publishers are held up"""

    memory_watermark: Annotated[
        float,
        said(
            "Up to 1 a part of the memory of machine or cgroup, above that bytes.",
            live=True,
            wanted="it must be a part of the memory, above 0 up to 1, "
            f"or bytes from {MEMORY_WATERMARK_BYTES_LEAST} to {BYTES_MOST}",
        ),
    ] = 0.4
    disk_free_bytes_min: Annotated[
        int,
        said(
            "What must stay free on the disk of `data_dir`; 0 for no alarm.",
            ge=0,
            le=BYTES_MOST,
            live=True,
            wanted=f"it must be from 0 to {BYTES_MOST}, 0 for no alarm",
        ),
    ] = 64 * 1024 * 1024


class DeadLetterSettings(Section, frozen=True):
    """[dead_letters] which queues of dead letters are retried by themselves, and when they are given up"""

    queues: Annotated[
        tuple[str, ...],
        said(
            "Patterns of names for queues of the virtual host `/`, or `vhost/pattern`; the whole name must match. "
            "None: nothing is done.",
            live=True,
        ),
    ] = ()
    every_s: Annotated[float, said("How often.", ge=0.05, le=SECONDS_MOST, live=True)] = 3600.0
    archive_after_s: Annotated[
        float,
        said("What has been failing for longer goes to the archive; 0 for never.", ge=0, le=SECONDS_MOST, live=True),
    ] = 86400.0
    archive_exchange: Annotated[str, said("By way of this exchange ...", live=True)] = ""
    archive_queue: Annotated[
        str,
        said("... with this routing key; the default exchange's queue is made if it is missing.", live=True),
    ] = "leveret.archive"
