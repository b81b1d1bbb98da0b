"""Files in any file system that Spark can use: Hadoop's file systems, through the session's Java.

A table may be on this machine, in HDFS or in an object store; Python's own functions support only the first.
Paths are strings, as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import SparkError, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class File:
    path: str
    """Relative to the directory that was listed."""
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]


class Files:
    """The files under one directory."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        java: Any = spark._jvm
        self._java = java
        self.root = root.rstrip("/") or "/"
        self._path = java.org.apache.hadoop.fs.Path
        # Java names a class of Spark's own after a missing scheme or a refused connection: one line will do.
        try:
            self._system = self._path(self.root).getFileSystem(spark._jsc.hadoopConfiguration())
        except Exception as error:
            reason = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise SparkError(f"cannot use the directory {root}: {reason}") from None

    def at(self, path: str) -> str:
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(self.at(path))))

    def list(self, path: str = "") -> list[File]:
        """All files under a directory, at any depth; none if it does not exist."""
        directory = self._path(self.at(path) if path else self.root)
        if not self._system.exists(directory):
            return []
        found = []
        base = self._system.getFileStatus(directory).getPath().toString()
        files = self._system.listFiles(directory, True)
        while files.hasNext():
            file = files.next()
            found.append(File(file.getPath().toString()[len(base) + 1 :], file.getLen()))
        return sorted(found, key=lambda file: file.path)

    def rename(self, path: str, to: str) -> None:
        target = self._path(self.at(to))
        self._system.mkdirs(target.getParent())
        if not self._system.rename(self._path(self.at(path)), target):
            raise SparkError(f"cannot rename {self.at(path)} to {self.at(to)}")

    def delete(self, path: str) -> None:
        """A file, or a directory with its contents; nothing if it does not exist."""
        self._system.delete(self._path(self.at(path)), True)

    def read(self, path: str) -> str:
        stream = self._system.open(self._path(self.at(path)))
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """A small file, written atomically with a rename."""
        from py4j.protocol import Py4JJavaError

        unfinished = f"{path}.new"
        try:
            stream = self._system.create(self._path(self.at(unfinished)), True)
        except Py4JJavaError as error:
            raise SparkError(
                f"cannot write to the directory {self.root}: {reason_of(error)}",
                hint="choose another directory, or make it writable",
            ) from None
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()
        self.delete(path)
        self.rename(unfinished, path)
