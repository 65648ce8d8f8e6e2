"""An archive of the classes that Spark loads, which Java maps when it starts.

To read some ten thousand classes from their jars, and to verify them, is about a quarter of what a
command takes that has little to do. Java writes an archive when it ends, and says itself whether
one fits: it goes on without if it does not (JEP 350, application class-data sharing).

The archive is in the user's cache folder, ``$XDG_CACHE_HOME/celery-fair``, and may be removed at
any time. The first command leaves it there, for one Java and one Spark. Nobody else may write into
that folder: Java runs what is in it.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from stat import S_IWGRP, S_IWOTH
from time import time

from celery_fair.pipeline.java import said_to_java

__all__ = ["archive_options"]

_UNFINISHED = 600.0
"""Seconds after which an archive that is not whole is made anew: its Java was killed."""

_UNUSED = 30 * 86400.0
"""Seconds after which an archive that was not used is removed."""

_UNQUOTED = set(" \t\n\"'\\:")

_IN_THE_WAY = re.compile(r"-javaagent|-agentlib|-agentpath|-Xrun|-Xshare|SharedArchive|AtExit")
"""Java archives no classes that an agent may have changed, and ends at once if it is told to."""


def archive_options(
    environ: Mapping[str, str] = os.environ, options: str = "", makes: bool = True
) -> str:
    """Return the options by which Java uses the archive, or makes it; "" if it can do neither.

    Arguments:
        options: Java's others, besides those of the environment.
        makes: whether one may be made: meanwhile no class is unloaded.
    """
    if _IN_THE_WAY.search(said_to_java(environ, options)) or _has_settings(environ):
        return ""
    # There may be no home, nobody may write there, or there is no Spark, which is told elsewhere.
    with suppress(OSError, RuntimeError, KeyError, ValueError, ImportError):
        folder = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "celery-fair"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_own(folder) or _UNQUOTED & set(str(folder)):
            return ""
        archive = folder / f"classes-{_fingerprint(environ)}.jsa"
        draft = archive.with_suffix(".new")
        if not archive.exists() and _is_whole(draft):
            draft.rename(archive)
        if archive.exists():
            draft.unlink(missing_ok=True)
            os.utime(archive)
            return f"-XX:SharedArchiveFile={archive}"
        if makes and _is_mine_to_make(draft):
            _clear_up(folder)
            return f"-XX:ArchiveClassesAtExit={draft}"
    return ""


def _has_settings(environ: Mapping[str, str]) -> bool:
    """Whether a folder of settings is among Java's classes, of which there is no archive then."""
    home = environ.get("SPARK_HOME")
    for folder in filter(None, (environ.get("SPARK_CONF_DIR"), home and f"{home}/conf")):
        with suppress(OSError):
            if any(Path(folder).iterdir()):
                return True
    return bool(environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR"))


def _is_own(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (S_IWGRP | S_IWOTH)


def _fingerprint(environ: Mapping[str, str]) -> str:
    """Which Java and which Spark these are."""
    java = Path(environ["JAVA_HOME"])
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ImportError("pyspark")
    jars = (Path(environ.get("SPARK_HOME") or Path(found.origin).parent) / "jars").resolve()
    which = (java.resolve(), (java / "release").read_text(), jars, jars.stat().st_mtime_ns)
    return sha256(repr(which).encode()).hexdigest()[:16]


def _is_whole(draft: Path) -> bool:
    """Whether Java has written it to the end: it writes the beginning last."""
    with suppress(FileNotFoundError), draft.open("rb") as file:
        return any(file.read(4))
    return False


def _is_mine_to_make(draft: Path) -> bool:
    """Make an empty draft, and say whether nobody else has."""
    with suppress(FileNotFoundError):
        if time() - draft.stat().st_mtime > _UNFINISHED:
            draft.unlink()
    try:
        draft.open("x").close()
    except FileExistsError:
        return False
    return True


def _clear_up(folder: Path) -> None:
    for path in folder.glob("classes-*"):
        with suppress(FileNotFoundError):
            if time() - path.stat().st_mtime > _UNUSED:
                path.unlink()
