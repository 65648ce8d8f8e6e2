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

__all__ = ["ONLY_IF_NONE", "JavaFiles"]

ONLY_IF_NONE = "fs.option.create.conditional.overwrite"
_BETWEEN = "\n"
_JARS = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:(its newest version)",
}
_UNKNOWN = ("UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError")
_REFUSED = ("AccessControlException", "AccessDeniedException", "FileNotFoundException")
"""If a file is not there, that is told as such before."""
_THERE = ("FileAlreadyExistsException", "RemoteFileChangedException")


class JavaFiles:
    """A folder, all of whose names are relative to it; see `storage.store.Store`.

    Raises:
        PipelineError: there is no such file system, or it cannot be reached.
        OSError: a file is not there, or is there already, or may not be used.
    """

    def __init__(self, spark: "SparkSession", root: str) -> None:
        self.root = root
        session: Any = spark
        self._java: Any = session.sparkContext._jvm
        self._gateway: Any = session.sparkContext._gateway
        with self.asked("opened"):
            conf = session._jsparkSession.sessionState().newHadoopConf()
            self._files = self.path("").getFileSystem(conf)

    def address(self, name: str = "") -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def path(self, name: str) -> Any:
        """Return Hadoop's path of a name."""
        return self._java.org.apache.hadoop.fs.Path(self.address(name))

    def scheme(self) -> str:
        """Return that of the file system in which the folder, or one above it, really is."""
        path = self.path("")
        while path is not None:
            with suppress(FileNotFoundError), self.asked("found"):
                return str(self._files.resolvePath(path).toUri().getScheme())
            path = path.getParent()
        return scheme_of(self.root)

    def can(self, what: str) -> bool:
        """Whether it says of itself that it can do something."""
        with self.asked("asked what it can do"):
            return bool(self._files.hasPathCapability(self.path(""), what))

    def is_folder(self, name: str = "") -> bool:
        with suppress(FileNotFoundError), self.asked("looked at", name):
            return bool(self._files.getFileStatus(self.path(name)).isDirectory())
        return False

    def changed(self, name: str) -> float:
        with self.asked("looked at", name):
            return int(self._files.getFileStatus(self.path(name)).getModificationTime()) / 1000

    def size(self, name: str) -> int:
        with self.asked("looked at", name):
            return int(self._files.getContentSummary(self.path(name)).getLength())

    def below(self) -> Iterator[str]:
        with self.asked("listed"):
            found = self._java.org.apache.hadoop.util.functional.RemoteIterators.toList(
                self._files.listFiles(self.path(""), True)
            )
            none = self._gateway.new_array(self._java.org.apache.hadoop.fs.FileStatus, 0)
            found = self._called("java.util.Collection", "toArray", found, none)
            return iter(self._addresses(found))

    def names(self, pattern: str) -> list[str]:
        below = unglobbed(self.root.rstrip("/"))
        whole = self._java.org.apache.hadoop.fs.Path(f"{below}/{pattern}")
        with self.asked("listed", pattern):
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

    def open(self, address: str) -> bytes:
        with self.asked("read", address):
            opened = self._files.open(self._java.org.apache.hadoop.fs.Path(address))
            try:
                return bytes(opened.readAllBytes())
            finally:
                opened.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file; one that is there is replaced."""
        with self.asked("written", name):
            self._fill(self._files.create(self.path(name), True), content)

    def create(self, name: str, content: bytes, conditional: bool) -> None:
        """Make a file.

        Arguments:
            conditional: by a PUT that the store refuses if there is one.

        Raises:
            FileExistsError: there is one.
        """
        with self.asked("made", name):
            builder = self._files.createFile(self.path(name)).overwrite(False)
            if conditional:
                builder.must(ONLY_IF_NONE, True)
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
        with suppress(FileExistsError), self.asked("renamed", name):
            return bool(self._files.rename(self.path(name), self.path(target)))
        return False

    def move(self, name: str, target: str) -> None:
        with self.asked("made", target):
            self._files.mkdirs(self.path(target).getParent())
        if not self.rename(name, target):
            raise OSError(f"{self.address(name)} could not be renamed to {target}")

    def remove(self, name: str) -> None:
        with suppress(OSError, PipelineError), self.asked("removed", name):
            self._files.delete(self.path(name), True)

    @contextmanager
    def asked(self, what: str, name: str = "") -> Iterator[None]:
        """Tell what Java throws as an error of Python's, or of ours."""
        from py4j.protocol import Py4JJavaError, Py4JNetworkError

        told = f"{name if ':/' in name else self.address(name)} cannot be {what}"
        try:
            yield
        except Py4JNetworkError as exc:
            raise PipelineError(f"{told}: Spark has ended; run it again") from exc
        except Py4JJavaError as exc:
            said, cause = _classes(exc.java_exception), root_cause(exc)
            if "FileNotFoundException" in said and "Permission denied" not in said:
                raise FileNotFoundError(f"{told}: there is none") from exc
            if _any(_THERE, said):
                raise FileExistsError(f"{told}: there is one") from exc
            if _any(_REFUSED, said):
                message = str(exc.java_exception.getMessage()).splitlines()[0]
                raise PermissionError(f"{told}: {message}") from exc
            mend = (
                self._jar()
                if _any(_UNKNOWN, said)
                else "see that the store runs and that its"
                " settings (--conf spark.hadoop.…) are right, and run it again"
            )
            raise PipelineError(f"{told}: {cause}; {mend}") from exc

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
