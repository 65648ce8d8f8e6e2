"""One run of ingest, by one of three, in a process of its own.

    python -m benchmarks.pipeline.ingesting celery-fair|spark|duckdb LOGS OUT MEMORY

Prints as JSON how long it took, with the start of the engine; see `benchmarks.pipeline.lean` for
the last two.
"""

import json
import sys
from pathlib import Path
from time import monotonic

from benchmarks.pipeline.lean import on_duckdb, on_spark


def celery_fair(logs: Path, out: Path, memory: str) -> None:
    """As the command does."""
    from celery_fair.cli.pipeline.options import Context
    from celery_fair.pipeline.ingest import ingest

    ingest(Context(None, memory, {}, as_json=True, quiet=True).warehouse(out, logs), logs)


def spark(logs: Path, out: Path, memory: str) -> None:
    from celery_fair.pipeline.session import open_session

    session = open_session(None, memory)
    on_spark(session, logs, out)


def duckdb(logs: Path, out: Path, memory: str) -> None:
    import duckdb as engine

    settings = {"memory_limit": memory, "temp_directory": str(out.with_name("spilled"))}
    with engine.connect(config=settings) as asked:
        on_duckdb(asked, logs, out)


MAKERS = {"celery-fair": celery_fair, "spark": spark, "duckdb": duckdb}


def main() -> None:
    way, logs, out, memory = sys.argv[1:]
    began = monotonic()
    MAKERS[way](Path(logs), Path(out), memory)
    print(json.dumps({"seconds": monotonic() - began}))


if __name__ == "__main__":
    main()
