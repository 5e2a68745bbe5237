"""The archive: what comes in, how it is kept in order, and how it goes back to a broker."""

from leveret.spark.pipeline.archive.archiving import read_archive, start_archive

__all__ = ["read_archive", "start_archive"]
