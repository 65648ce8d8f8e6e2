"""What goes wrong for reasons that the caller can fix, and what Java says went wrong."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class PipelineError(Exception):
    """The message says what was attempted, with which value, and what to do."""


class RefusedError(PipelineError):
    """What was asked for cannot be: it is mistyped, or of something else."""


_CAUSE = re.compile(r"^(?:Caused by: |: )(.+)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:[a-z]\w*\.)+(\w+: )")
_NAMED = re.compile(r"^\w+: (?=\[[A-Z])")
"""The class of an error that has a name of its own: that says more."""
_FAILED = re.compile(r"(?:Lost task|Task failed)[^\n]*?: ((?:[a-z]\w*\.)+\w+: [^\n]*)")
_READING = re.compile(r"Encountered error while reading file (\S+?)\.?(?:\s|$)")
_HINTS = {
    "Permission denied": "let this user read it, and write into the warehouse",
    "No space left on device": "the disk is full: make room, or name another folder",
    "Read-only file system": "let this user write there, or name another folder",
    "Disk quota exceeded": "the disk is full: make room, or name another folder",
    "OutOfMemoryError": "memory ran out: give more with --driver-memory",
    "is not a Parquet file": "a file of the warehouse is broken: ingest the logs into a new folder",
    "PATH_NOT_FOUND": "a folder of the warehouse is gone: run it again, as others may have"
    " published meanwhile; if that does not help, ingest the logs into a new folder",
    "FAILED_READ_FILE.NO_HINT": "it is cut short, or not what its name says: copy it again, or take"
    " it away",
    "FileNotFoundException": "a file has been removed meanwhile: run it again",
}


def root_cause(exc: BaseException, said: str = "") -> str:
    """Return, in one line, what is behind an error of Spark's, and what to do where that is known.

    Arguments:
        said: what Java has said on standard error, if that is known.
    """
    told = [*_causes(exc), said]
    deepest = next((found for text in told for found in _deepest(text)), None)
    line = deepest or next(iter(str(exc).splitlines()), "") or type(exc).__name__
    whole = "\n".join([str(exc), *told])
    hint = next((_HINTS[word] for word in _HINTS if word in whole), None)
    plain = _NAMED.sub("", _CLASS.sub(r"\1", line.strip().rstrip("."))) + _file(whole, line)
    return plain if hint is None else f"{plain}; {hint}"


def _file(whole: str, line: str) -> str:
    """Which file was being read, if the line does not say."""
    found = _READING.search(whole)
    path = unquote(urlsplit(found[1]).path) if found else ""
    return f", in {path}" if path and Path(path).name not in line else ""


def _causes(exc: BaseException) -> list[str]:
    """Texts of the errors behind one, the deepest first, each with its class."""
    java: Any = getattr(exc, "_origin", None) or getattr(exc, "java_exception", None)
    found: list[str] = []
    while java is not None and len(found) < 20:
        found.insert(0, str(java.toString()))
        java = java.getCause()
    return found or [str(exc)]


def _deepest(text: str) -> list[str]:
    """What a text with Java's stacks in it says was the cause of all, if it has any."""
    causes = _CAUSE.findall(text) or _FAILED.findall(text)
    if causes:
        return [causes[-1]]
    return [text.splitlines()[0]] if _CLASS.match(text) else []
