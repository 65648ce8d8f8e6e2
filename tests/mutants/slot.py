"""Where one fault after the other is tried: a copy of the tree, and processes that are warm.

A test run that begins cold imports for two seconds before its first test, and a new JVM is slow for
its first minute; a fault's own tests are often over in less. So a slot has a nursery (see
`tests/preloaded.py`) that has imported what is not ours, from which each run is forked, and, once
the first run needs it, a JVM that Spark's sessions of one run after the other are made in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from subprocess import TimeoutExpired

from tests.mutants.copied import Copied
from tests.pipeline.lent_java import LentJava
from tests.preloaded import Nursery, PreloadedCelery

__all__ = ["Slot", "of_spark"]

# Else pytest looks for plugins in all that is installed, and wants to import them itself.
PLUGINS = ("pytest_timeout", "_hypothesis_pytestplugin")
CHOSEN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

WARM = (
    "pytest",
    "hypothesis.strategies",
    "psutil",
    "celery.apps.worker",
    "celery.bin.worker",  # not `celery.bin.celery`, which imports ours
    "celery.concurrency.prefork",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.contrib.testing.worker",
    "celery.backends.redis",
    "kombu.transport.memory",
    "kombu.transport.pyamqp",
    "kombu.transport.redis",
    "redis",
    "sqlalchemy.orm",
)
SPARKS = ("pandas", "pyarrow", "pyspark.sql.functions", "pyspark.testing")


def of_spark(test: str) -> bool:
    """Whether a test may need a session of Spark's."""
    return test.startswith("tests/pipeline/")


class Slot:
    """A copy, in a folder of its own, and its processes."""

    def __init__(self, folder: Path) -> None:
        self.copied = Copied(folder / "copy")
        self._logs = (folder / f"{number}.log" for number in count())
        self._nursery = Nursery(*WARM, *SPARKS, folder=self.copied.folder)
        self._java: LentJava | None = None

    def run(self, tests: Sequence[str], options: Sequence[str], longest: float) -> tuple[int, str]:
        """Run pytest; return its exit code, and what it said.

        Raises:
            TimeoutError: it was not over after so many seconds; with what it had said until then.
        """
        environment = self.copied.environment | {"COLUMNS": "500", **CHOSEN}
        with_spark = any(map(of_spark, tests))
        if with_spark:
            self._java = self._java or LentJava()
            environment |= self._java.variables
        options = [*(f"-p{plugin}" for plugin in PLUGINS), *options]
        process = _Pytest(self._nursery, [*options, *tests], next(self._logs), environment)
        try:
            code = process.wait(longest)
        except TimeoutExpired:
            raise TimeoutError(process.log()) from None
        finally:
            process.end()
            if with_spark and not (self._java and self._java.is_free()):
                self._end_java()
        return code, process.log()

    def close(self) -> None:
        self._nursery.close()
        self._end_java()

    def _end_java(self) -> None:
        if self._java:
            self._java.end()
            self._java = None


class _Pytest(PreloadedCelery):
    module = "pytest"

    def __init__(
        self, nursery: Nursery, arguments: Sequence[str], log: Path, environment: dict[str, str]
    ) -> None:
        self._forking = nursery
        folder = Path(environment["PYTHONPATH"])
        super().__init__(arguments, log, environment, cwd=folder)

    def _nursery(self) -> Nursery:
        return self._forking
