"""One file system of Hadoop's, by way of the session's Java.

Each call of Java costs a tenth of a millisecond, and one of a store many: what may be long is
brought over as one text, whatever the number of files.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from celery_fair.pipeline.errors import PipelineError, root_cause
from celery_fair.pipeline.log_files import unglobbed
from celery_fair.pipeline.storage.address import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JavaFiles"]

_BETWEEN = "\n"
_ONLY_IF_NONE = "fs.option.create.conditional.overwrite"
_JARS = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:(its newest version)",
}
_UNKNOWN = ("UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError")
_REFUSED = ("AccessControlException", "AccessDeniedException")
_THERE = ("FileAlreadyExistsException", "RemoteFileChangedException")


class JavaFiles:
    """The file system of a folder, all of whose names are relative to it.

    Raises:
        PipelineError: there is no such file system, or it cannot be reached.
        OSError: a file is not there, or is there already, or may not be used.
    """

    def __init__(self, spark: "SparkSession", root: str) -> None:
        self.root = root
        session: Any = spark
        self._java: Any = session.sparkContext._jvm
        self._gateway: Any = session.sparkContext._gateway
        with self._asked("opened"):
            conf = session._jsparkSession.sessionState().newHadoopConf()
            self._folder = self._java.org.apache.hadoop.fs.Path(root)
            self._files = self._folder.getFileSystem(conf)

    def path(self, name: str) -> Any:
        """Return Hadoop's path of a name."""
        if not name:
            return self._folder
        return self._java.org.apache.hadoop.fs.Path(f"{self.root.rstrip('/')}/{name}")

    @property
    def scheme(self) -> str:
        """That of the file system in which the folder, or the one above it, really is."""
        path = self._folder
        while path is not None:
            with suppress(FileNotFoundError), self._asked("found"):
                return str(self._files.resolvePath(path).toUri().getScheme())
            path = path.getParent()
        return scheme_of(self.root)

    def creates_only_if_none(self) -> bool:
        """Whether it says of itself that it can make a file only if there is none."""
        with self._asked("asked what it can do"):
            return bool(self._files.hasPathCapability(self._folder, _ONLY_IF_NONE))

    def is_folder(self, name: str) -> bool:
        try:
            with self._asked("looked at", name):
                return bool(self._files.getFileStatus(self.path(name)).isDirectory())
        except FileNotFoundError:
            return False

    def changed(self, name: str) -> int:
        """Return when a file was written, in milliseconds by the store's clock."""
        with self._asked("looked at", name):
            return int(self._files.getFileStatus(self.path(name)).getModificationTime())

    def below(self) -> list[str]:
        """Return the addresses of all files below the folder, at any depth."""
        with self._asked("listed"):
            found = self._java.org.apache.hadoop.util.functional.RemoteIterators.toList(
                self._files.listFiles(self._folder, True)
            )
            none = self._gateway.new_array(self._java.org.apache.hadoop.fs.FileStatus, 0)
            return self._addresses(self._called("java.util.Collection", "toArray", found, none))

    def first_below(self) -> Iterator[str]:
        """Yield the names of files below the folder, each when it is found."""
        with self._asked("listed"):
            found = self._files.listFiles(self._folder, True)
            while found.hasNext():
                yield str(found.next().getPath().getName())

    def fitting(self, pattern: str) -> list[str]:
        """Return the names that fit a pattern."""
        whole = self._java.org.apache.hadoop.fs.Path(
            f"{unglobbed(self.root.rstrip('/'))}/{pattern}"
        )
        with self._asked("listed", pattern):
            found = self._files.globStatus(whole)
            addresses = [] if found is None else self._addresses(found)
        depth = pattern.count("/") + 1
        return ["/".join(address.rsplit("/", depth)[1:]) for address in addresses]

    def _addresses(self, found: Any) -> list[str]:
        array = self._java.org.apache.hadoop.fs.FileUtil.stat2Paths(found)
        paths = self._called("java.util.Arrays", "asList", None, array)
        text = self._java.org.apache.hadoop.util.StringUtils.join(_BETWEEN, paths)
        return str(text).split(_BETWEEN) if text else []

    def _called(self, kind: str, method: str, target: Any, array: Any) -> Any:
        """Call what takes an array of any class: Py4J finds only what takes that very class."""
        named = self._java.java.lang.Class.forName
        kinds = self._gateway.new_array(self._java.java.lang.Class, 1)
        given = self._gateway.new_array(self._java.java.lang.Object, 1)
        kinds[0], given[0] = named("[Ljava.lang.Object;"), array
        return named(kind).getMethod(method, kinds).invoke(target, given)

    def read(self, address: str) -> bytes:
        """Return what is in the file of an address."""
        with self._asked("read", address):
            opened = self._files.open(self._java.org.apache.hadoop.fs.Path(address))
            try:
                return bytes(opened.readAllBytes())
            finally:
                opened.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file; one that is there is replaced."""
        with self._asked("written", name):
            self._fill(self._files.create(self.path(name), True), content)

    def create(self, name: str, content: bytes, conditional: bool) -> None:
        """Make a file.

        Arguments:
            conditional: by a PUT that the store refuses if there is one.

        Raises:
            FileExistsError: there is one.
        """
        with self._asked("made", name):
            builder = self._files.createFile(self.path(name)).overwrite(False)
            if conditional:
                builder.must(_ONLY_IF_NONE, True)
            self._fill(builder.build(), content)

    @staticmethod
    def _fill(opened: Any, content: bytes) -> None:
        """Write what is whole when it is closed, and closed only when it is whole."""
        try:
            opened.write(content)
        except BaseException:  # an interrupt too; re-raised
            with suppress(Exception):  # most have no such method, and are left open
                opened.abort()
            raise
        opened.close()

    def rename(self, name: str, target: str) -> bool:
        """Give something another name; False if something has that."""
        try:
            with self._asked("renamed", name):
                return bool(self._files.rename(self.path(name), self.path(target)))
        except FileExistsError:
            return False

    def make(self, name: str) -> None:
        with self._asked("made", name):
            if not self._files.mkdirs(self.path(name)):
                raise OSError(f"{self._told(name)} could not be made")

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it, unless it is gone."""
        with self._asked("removed", name):
            self._files.delete(self.path(name), True)

    def size(self, name: str) -> int:
        with self._asked("looked at", name):
            return int(self._files.getContentSummary(self.path(name)).getLength())

    def _told(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name and ":/" not in name else name or self.root

    @contextmanager
    def _asked(self, what: str, name: str = "") -> Iterator[None]:
        """Tell what Java throws as an error of Python's, or of ours."""
        from py4j.protocol import Py4JJavaError, Py4JNetworkError

        told = f"{self._told(name)} cannot be {what}"
        try:
            yield
        except Py4JNetworkError as exc:
            raise PipelineError(f"{told}: Spark has ended; run it again") from exc
        except Py4JJavaError as exc:
            said = _classes(exc.java_exception)
            cause = root_cause(exc)
            if "FileNotFoundException" in said and "Permission denied" not in said:
                raise FileNotFoundError(f"{told}: there is none") from exc
            if _any(_THERE, said):
                raise FileExistsError(f"{told}: there is one") from exc
            if (
                _any(_REFUSED, said) or "FileNotFoundException" in said
            ):  # what to do is told with it
                message = str(exc.java_exception.getMessage()).splitlines()[0]
                raise PermissionError(f"{told}: {message}") from exc
            if _any(_UNKNOWN, said):
                raise PipelineError(f"{told}: {cause}; {self._jar()}") from exc
            raise PipelineError(
                f"{told}: {cause}; see that the store runs and that its"
                " settings (--conf spark.hadoop.…) are right, and run it again"
            ) from exc

    def _jar(self) -> str:
        scheme = scheme_of(self.root)
        hadoop = self._java.org.apache.hadoop.util.VersionInfo.getVersion()
        jar = _JARS.get(scheme, "GROUP:ARTIFACT:VERSION").format(hadoop=hadoop)
        return (
            f"this Spark has no file system for {scheme}: give it one with"
            f" --conf spark.jars.packages={jar} (or spark.jars=PATH), or name another folder"
        )


def _classes(java: Any) -> str:
    """The classes of an error and of what is behind it."""
    found: list[str] = []
    while java is not None and len(found) < 20:
        found.append(str(java.toString()))
        java = java.getCause()
    return " ".join(found)


def _any(names: Iterable[str], said: str) -> bool:
    return any(name in said for name in names)
