"""Can Spark run here?"""

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from celery_fair.pipeline.java import JAVA_NEEDED, LEAST_VERSION, candidates, listed


class Finding(NamedTuple):
    """What was found; if it is not good, how to fix it."""

    topic: str
    good: bool
    text: str


def examined(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield all that can be found out by starting nothing but `java -version`."""
    yield _java(environ)
    yield from map(_package, ("pyspark", "pandas", "pyarrow"))


def _java(environ: Mapping[str, str]) -> Finding:
    found = list(candidates(environ))
    usable = [java for java in found if java.version >= LEAST_VERSION]
    if usable:
        java = usable[0]
        return Finding("java", True, f"{java.version}, {java.home}, by {java.found}")
    return Finding("java", False, f"no usable one; found: {listed(found)}; {JAVA_NEEDED}")


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "is not installed; pip install celery-fair[spark]")
