"""One run of ingest, by one of three, in a process of its own.

    python -m benchmarks.pipeline.ingesting celery-fair|spark|duckdb LOGS OUT MEMORY [MASTER]

Prints as JSON how long it took, with the start of the engine; see `benchmarks.pipeline.lean` for
the last two.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from benchmarks.pipeline.lean import on_duckdb, on_spark


def celery_fair(logs: Path, out: Path, memory: str, master: str | None = None) -> None:
    """As the command does.

    Arguments:
        memory: of the driver, and of each executor of a cluster.
    """
    from celery_fair.cli.pipeline.context import Context
    from celery_fair.pipeline.ingest import ingest

    conf = {"spark.executor.memory": memory}
    ingest(Context(master, memory, conf, as_json=True, quiet=True).warehouse(out, logs), logs)


def spark(logs: Path, out: Path, memory: str) -> None:
    from celery_fair.pipeline.session import open_session

    session = open_session(None, memory)
    on_spark(session, logs, out)


def duckdb(logs: Path, out: Path, memory: str) -> None:
    import duckdb as engine

    settings = {"memory_limit": memory, "temp_directory": str(out.with_name("spilled"))}
    with engine.connect(config=settings) as asked:
        on_duckdb(asked, logs, out)


MAKERS: dict[str, Callable[..., None]] = {
    "celery-fair": celery_fair,
    "spark": spark,
    "duckdb": duckdb,
}


def main() -> None:
    way, logs, out, memory, *master = sys.argv[1:]
    began = monotonic()
    MAKERS[way](Path(logs), Path(out), memory, *master)
    print(json.dumps({"seconds": monotonic() - began}))


if __name__ == "__main__":
    main()
