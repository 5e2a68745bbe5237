"""Small files and folders of the lake, wherever it is: a folder of this machine, hdfs://, s3a://.

Goes through Hadoop's file systems, as Spark does for the tables, so that both see the same. Never looks into tables."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

__all__ = ["Entry", "LakeFiles"]


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

    def write_new(self, path: str, text: str) -> bool:
        """A file with this text, whole or not at all. False if there is one of this name: somebody else was faster."""
        return self._write(path, text, over=False)

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

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where, where.getFileSystem(self._settings)
