"""Can Spark run here?"""

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.java import find_java


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
    try:
        java = find_java(environ)
    except PipelineError as exc:
        return Finding("java", False, str(exc))
    return Finding("java", True, f"{java.version}, {java.home}, by {java.found}")


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "is not installed; pip install celery-fair[spark]")
