"""Finds a Java that Spark can run on: JAVA_HOME's, that on PATH, those in the usual places."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "JAVA_NEEDED",
    "LEAST_VERSION",
    "Java",
    "candidates",
    "chooses_collector",
    "find_java",
    "listed",
    "passed_over",
    "said_to_java",
    "version_of",
]

LEAST_VERSION = 17
JAVA_NEEDED = (
    f"Spark needs Java {LEAST_VERSION} or newer; on Debian and Ubuntu: "
    "sudo apt-get install --no-install-recommends openjdk-17-jre-headless; "
    "elsewhere install one and set JAVA_HOME to its folder"
)
_PLACES = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/java/*")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_SAID = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_JAVA_HOME = "JAVA_HOME"
_TIMEOUT = 20


class Java(NamedTuple):
    """One that can be run."""

    home: str
    version: int
    found: str  # where


def find_java(environ: Mapping[str, str], least: int = LEAST_VERSION) -> Java | None:
    """Return the first candidate that runs and is new enough."""
    usable = (java for java in candidates(environ) if java.version >= least)
    return next(usable, None)


def passed_over(environ: Mapping[str, str], java: Java) -> str:
    """Return what to tell of a JAVA_HOME that is set and is not used; "" if there is nothing."""
    home = environ.get("JAVA_HOME")
    if not home or java.found == _JAVA_HOME:
        return ""
    return (
        f"JAVA_HOME={home} has no Java {LEAST_VERSION} or newer: {java.version} in {java.home}"
        " is used"
    )


def candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    """Yield every Java that runs and has a home, the preferred first."""
    for program, found in _programs(environ):
        version = version_of(program)
        home = None if version is None else _home(program)
        if version is not None and home is not None:
            yield Java(home, version, found)


def said_to_java(environ: Mapping[str, str], options: str = "") -> str:
    """Return its options: those of the environment, and these."""
    return " ".join([options, *(environ.get(name, "") for name in _SAID)])


def chooses_collector(environ: Mapping[str, str], options: str = "") -> bool:
    """Whether a garbage collector is named in the environment, or in these options."""
    return _COLLECTOR.search(said_to_java(environ, options)) is not None


def listed(found: Iterable[Java]) -> str:
    """Return what was found, in words."""
    return ", ".join(f"{java.version} ({java.home})" for java in found) or "none"


def version_of(program: Path) -> int | None:
    """Return the major version that `program` says it has; None if it does not run."""
    match = _VERSION.search(_said(program, "-version"))
    return int(match[1]) if match else None


def _home(program: Path) -> str | None:
    """Return the folder from which Spark starts ``bin/java``.

    What is on PATH may be a shim, which is in no such folder: it knows the one that it starts.
    """
    around = program.resolve().parents[1]
    if (around / "bin" / "java").is_file():
        return str(around)
    told = _HOME.search(_said(program, "-XshowSettings:properties", "-version"))
    return told[1] if told and Path(told[1], "bin", "java").is_file() else None


def _said(program: Path, *options: str) -> str:
    """Return what it prints; nothing if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - what JAVA_HOME and PATH name is trusted by Spark too
            [program, *options], capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stderr + done.stdout


def _programs(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"], "bin", "java"), _JAVA_HOME
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path), "PATH"
    for place in _PLACES:
        root, pattern = place.split("*", 1)
        for home in sorted(Path(root).glob(f"*{pattern}")):
            yield home / "bin" / "java", place
