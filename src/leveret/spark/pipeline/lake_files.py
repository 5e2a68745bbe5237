"""Small files and folders of the lake, wherever it is: a folder of this machine, hdfs://, s3a://.

Goes through Hadoop's file systems, as Spark does for the tables, so that both see the same. Never looks into tables.

A file that several writers may want to make at once, such as the next manifest, is made by one of them alone. Only
folders of a machine (by a hard link) and HDFS (by a rename) can do that. An object store cannot: there Hadoop looks
whether the file is there and then writes it, and each of several writers may find that it has won. So there it is
refused, unless the user says that there is a single writer."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from leveret.spark.pipeline.lake import Lake

__all__ = ["Entry", "LakeFiles", "LakeNotAtomic"]

LOCAL = "file"
# Schemes of file systems on which one of several writers makes a file, and the others are told so.
ATOMIC = (LOCAL, "hdfs")


class LakeNotAtomic(Exception):
    """Several writers at once could all believe to have written the same file of the lake. Nothing was done."""


class Entry(NamedTuple):
    """A file or folder in a folder."""

    name: str
    modified_ms: int


class LakeFiles:
    """Only for sessions with a JVM of their own, not for Spark Connect: there is no other way to its file systems."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._gateway: Any = spark.sparkContext._gateway

    def list(self, folder: str) -> list[Entry]:
        """What is in a folder, by name; nothing if there is no such folder."""
        path, system = self._at(folder)
        try:
            found = system.listStatus(path)
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error):
                return []
            raise
        return sorted(Entry(one.getPath().getName(), one.getModificationTime()) for one in found)

    def exists(self, path: str) -> bool:
        where, system = self._at(path)
        return bool(system.exists(where))

    def read(self, path: str) -> str:
        where, system = self._at(path)
        stream = system.open(where)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def touch(self, path: str) -> None:
        """An empty file: it is there, or it is not, and nothing between."""
        where, system = self._at(path)
        system.create(where, True).close()

    def check_writers(self, lake: Lake) -> None:
        """Raises LakeNotAtomic if files that several writers want can be made by more than one of them, and the user
        did not say that there is one alone."""
        scheme = self._scheme(lake.root)
        if scheme not in ATOMIC and not lake.single_writer:
            raise LakeNotAtomic(
                f"the lake {lake.root} is on {scheme}://, where two jobs that change the archive at once can both "
                "succeed, and one of the changes is lost. If nothing else compacts, expires or replays this lake, say "
                "so with --single-writer (Lake(..., single_writer=True)); archives run beside it with --compact-every "
                "never. Lakes on a folder or on hdfs:// take several writers"
            )

    def write_new(self, lake: Lake, path: str, text: str) -> bool:
        """A file with this text, whole or not at all. False if there is one of this name: somebody else was faster.
        Raises LakeNotAtomic where that cannot be found out."""
        self.check_writers(lake)
        if self._scheme(path) == LOCAL and not lake.single_writer:
            return self._link_new(path, text)
        return self._write(path, text, over=False)

    def _link_new(self, path: str, text: str) -> bool:
        """Hadoop's rename looks whether the file is there before it renames, also in a folder of this machine; to make
        a link is one step."""
        where, system = self._at(path)
        target = Path(system.makeQualified(where).toUri().getPath())
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"_{target.name}.{uuid.uuid4().hex[:8]}")
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise LakeNotAtomic(
                f"{target} could not be made by a hard link, by which one of several writers is told from the others: "
                f"{error}. If nothing else changes this lake, say so with --single-writer"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
        return True

    def write_over(self, path: str, text: str) -> None:
        """The same in place of the file there was: who reads it sees one of the two."""
        self._write(path, text, over=True)

    def _write(self, path: str, text: str, over: bool) -> bool:
        folder, _, name = path.rpartition("/")
        # A name that readers of the folder pass over.
        temporary, system = self._at(f"{folder}/_{name}.{uuid.uuid4().hex[:8]}")
        target, _ = self._at(path)
        stream = system.create(temporary, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        kind = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._gateway.new_array(kind, 1)
        options[0] = kind.OVERWRITE if over else kind.NONE
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(system.getUri(), self._settings)
        try:
            context.rename(temporary, target, options)
        except Py4JJavaError as error:
            system.delete(temporary, False)
            if not over and "FileAlreadyExistsException" in str(error):
                return False
            raise
        return True

    def move(self, folder: str, to: str) -> None:
        """A folder to a place where there is none yet."""
        source, system = self._at(folder)
        target, _ = self._at(to)
        system.mkdirs(target.getParent())
        if not system.rename(source, target):
            raise OSError(f"{folder} could not be moved to {to}: is it there already?")

    def delete(self, path: str) -> None:
        """The file or the folder with everything in it, if it is there."""
        where, system = self._at(path)
        system.delete(where, True)

    def size(self, folder: str) -> int:
        """Octets of all files in it and below."""
        where, system = self._at(folder)
        return int(system.getContentSummary(where).getLength())

    def _scheme(self, path: str) -> str:
        """Of the file system that the path is on, also where it is the default one."""
        where, system = self._at(path)
        scheme: str | None = system.makeQualified(where).toUri().getScheme()
        return scheme or LOCAL

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where, where.getFileSystem(self._settings)
