"""Files in any file system that Spark can use: Hadoop's file systems, through the session's Java.

A table may be on this machine, in HDFS or in an object store; Python's own functions support only the first.
Paths are strings, as in Spark.
"""

from __future__ import annotations

import errno
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import SparkError, reason_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

LOCAL = "file:///"


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
        # Java names a Spark class after a missing scheme or a refused connection: one line will do.
        try:
            self._system = self._path(self.root).getFileSystem(spark._jsc.hadoopConfiguration())
        except Exception as error:
            reason = str(getattr(error, "java_exception", error)).splitlines()[0]
            hint = "check the address, and that it can be reached from here"
            if "ClassNotFoundException" in reason or "No FileSystem for scheme" in reason:
                reason = "Spark has no file system for it"
                hint = "give Spark its jar, as docs/tables.md shows under Object stores"
            raise SparkError(f"cannot use the directory {root}: {reason}", hint=hint) from None

    def at(self, path: str) -> str:
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(self.at(path))))

    def modified(self, path: str) -> float:
        """When, in seconds since 1970."""
        return float(self._system.getFileStatus(self._path(self.at(path))).getModificationTime()) / 1000

    def directories(self) -> list[str]:
        """The names of the directories directly below; none if it does not exist."""
        root = self._path(self.root)
        if not self._system.exists(root):
            return []
        found = self._system.listStatus(root)
        return sorted(status.getPath().getName() for status in found if status.isDirectory())

    def _remote_files(self, base: Any) -> list[File]:
        found = []
        start = len(base.toString()) + 1
        files = self._system.listFiles(base, True)
        while files.hasNext():
            file = files.next()
            found.append(File(file.getPath().toString()[start:], file.getLen()))
        return found

    def list(self, path: str = "") -> list[File]:
        """All files under a directory, at any depth; none if it does not exist."""
        directory = self._system.makeQualified(self._path(self.at(path) if path else self.root))
        if self._is_local():
            found = _local_files(str(directory.toUri().getPath()))
        else:
            found = self._remote_files(directory) if self._system.exists(directory) else []
        return sorted(found, key=lambda file: file.path)

    def _is_local(self) -> bool:
        return str(self._system.getUri()) == LOCAL

    def rename(self, path: str, to: str) -> None:
        target = self._path(self.at(to))
        self._system.mkdirs(target.getParent())
        if not self._system.rename(self._path(self.at(path)), target):
            raise SparkError(f"cannot rename {self.at(path)} to {self.at(to)}")

    def delete(self, path: str) -> None:
        """A file, or a directory with its contents; nothing if it does not exist."""
        self._system.delete(self._path(self.at(path)), True)

    def open(self, path: str, size: int) -> io.BufferedReader:
        """A file that can be read at any position, such as a footer at its end."""
        return io.BufferedReader(_Input(self._java, self._system.open(self._path(self.at(path))), size))

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
        self._replace(unfinished, path)

    def create(self, path: str, contents: pyarrow.Buffer) -> None:
        """A new file, in a directory that is created if missing. Raises OSError and Py4JJavaError."""
        target = self._path(self.at(path))
        if self._is_local():  # Java would get the bytes as text
            place = Path(str(target.toUri().getPath()))
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(contents)
            return
        stream = self._system.create(target, False)
        try:
            stream.write(bytearray(contents))
        finally:
            stream.close()

    def _replace(self, path: str, target: str) -> None:
        """Rename over an existing file: on a local disk there is one or the other at any moment.

        The checksum that Hadoop keeps next to a local file goes first: that of the old content would
        invalidate the new one. File systems that do not rename over a file need two steps.
        """
        directory, _, name = target.rpartition("/")
        self.delete(f"{directory}/.{name}.crc")
        if not self._system.rename(self._path(self.at(path)), self._path(self.at(target))):
            self.delete(target)
            self.rename(path, target)


def _local_files(base: str) -> list[File]:
    """Skips what disappears during the walk, such as the temporary files of a batch.

    Hadoop would fail. It also runs `ls` for every local file, to read permissions that we do not need.
    """
    if os.path.isfile(base):
        return [File("", os.stat(base).st_size)]  # as Hadoop lists it
    found = []
    for directory, _, names in os.walk(base, onerror=_raise_unless_gone, followlinks=True):
        for name in filter(_is_listed, names):
            file = os.path.join(directory, name)
            try:
                found.append(File(os.path.relpath(file, base), os.stat(file).st_size))
            except OSError as error:
                _raise_unless_gone(error)
    return found


def _is_listed(name: str) -> bool:
    """Hadoop lists neither its checksums nor names that are not UTF-8, which Java cannot open."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not (name.startswith(".") and name.endswith(".crc"))


def _raise_unless_gone(error: OSError) -> None:
    """As in Hadoop, nothing is below a file, and a link that leads back to itself ends somewhere."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        raise SparkError(
            f"cannot list {error.filename}: {error.strerror}",
            hint="make it readable for the user who runs this",
        ) from None


def library_uri(root: str) -> str:
    """The libraries' spelling of what Spark calls `s3a://bucket/table` or `file:/table`."""
    if root.startswith(("s3a://", "s3n://")):
        return "s3" + root[3:]
    if root.startswith("file:"):
        return "/" + root.removeprefix("file:").lstrip("/")
    return root


class _Input(io.RawIOBase):
    """A file that Java has opened, as Python reads files."""

    def __init__(self, java: Any, stream: Any, size: int) -> None:
        self._java = java
        self._stream = stream
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count > 0:
            self._stream.seek(self._at)
            buffer[:count] = bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(self._stream, count))
            self._at += count
        return max(0, count)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
