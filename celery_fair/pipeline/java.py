"""A Java that Spark can run on: JAVA_HOME's, that on PATH, those in the usual places.

Java maps an archive of the classes that Spark loads when it starts.

To read some ten thousand classes from their jars, and to verify them, is about a quarter of what a
command takes that has little to do. Java writes an archive when it ends, and says itself whether
one fits: it goes on without if it does not (JEP 350, application class-data sharing).

The archive is in the user's cache folder, ``$XDG_CACHE_HOME/celery-fair``, and may be removed at
any time. The first command leaves it there, for one Java and one Spark. Nobody else may write into
that folder: Java runs what is in it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from stat import S_IWGRP, S_IWOTH
from time import time
from typing import NamedTuple

from celery_fair.pipeline.errors import PipelineError

_LEAST_VERSION = 17
_NEEDED = (
    f"Spark needs Java {_LEAST_VERSION} or newer; on Debian and Ubuntu: "
    "sudo apt-get install --no-install-recommends openjdk-17-jre-headless; "
    "elsewhere install one and set JAVA_HOME to its folder"
)
_PLACES = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/java/*")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
_TIMEOUT = 20


class Java(NamedTuple):
    """One that can be run."""

    home: str
    version: int
    found: str  # where


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the first candidate that is new enough.

    Raises:
        PipelineError: there is none.
    """
    older = []
    for java in candidates(environ):
        if java.version >= _LEAST_VERSION:
            return java
        older.append(f"{java.version} ({java.home})")
    found = ", ".join(older) or "none"
    raise PipelineError(f"no usable Java; found: {found}. {_NEEDED}")


def candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    """Yield every Java that runs, the preferred first."""
    return filter(None, (_java(*place) for place in _programs(environ)))


def _java(program: Path, found: str) -> Java | None:
    """Return what a program says it is; None if it does not run.

    Spark starts ``bin/java`` of its home. What is on PATH may be a shim, which is in none.
    """
    try:
        done = subprocess.run(  # noqa: S603 - what JAVA_HOME and PATH name is trusted by Spark too
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    said = done.stderr + done.stdout
    version, home = _VERSION.search(said), _HOME.search(said)
    return Java(home[1], int(version[1]), found) if version and home else None


def _programs(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"], "bin", "java"), "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path), "PATH"
    for place in _PLACES:
        root, pattern = place.split("*", 1)
        for home in sorted(Path(root).glob(f"*{pattern}")):
            yield home / "bin" / "java", place


# The archive of classes --------------------------------------------------------


_UNFINISHED = 600.0
"""Seconds after which an archive that is not whole is made anew: its Java was killed."""

_UNQUOTED = set(" \t\n\"'\\:")


def archive_options(environ: Mapping[str, str] = os.environ, makes: bool = True) -> str:
    """Return the option by which Java uses the archive, or makes it; "" if it can do neither.

    Arguments:
        makes: whether one may be made: meanwhile no class is unloaded.
    """
    # There may be no home, nobody may write there, or there is no Spark, which is told elsewhere.
    with suppress(OSError, RuntimeError, KeyError, ValueError, ImportError):
        folder = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "celery-fair"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_own(folder) or _UNQUOTED & set(str(folder)):
            return ""
        archive = folder / f"classes-{_fingerprint(environ)}.jsa"
        if _is_whole(archive):
            return f"-XX:SharedArchiveFile={archive}"
        if makes:
            for old in folder.glob("classes-*.jsa"):  # of another Java, or Spark, or not whole
                if not _is_being_made(old):
                    old.unlink(missing_ok=True)
            archive.open("x").close()  # unless somebody else makes it
            return f"-XX:ArchiveClassesAtExit={archive}"
    return ""


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


def _is_whole(archive: Path) -> bool:
    """Whether Java has written it to the end: it writes the beginning last."""
    with suppress(FileNotFoundError), archive.open("rb") as file:
        return any(file.read(4))
    return False


def _is_being_made(archive: Path) -> bool:
    """Whether somebody has begun one lately."""
    with suppress(FileNotFoundError):
        return time() - archive.stat().st_mtime < _UNFINISHED
    return False
