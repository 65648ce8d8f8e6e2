"""Commands of the pipeline's one after the other, in one session: `ingest a b + report b c`."""

from __future__ import annotations

import sys
from itertools import groupby

from celery_fair.cli.pipeline.group import pipeline

__all__: list[str] = []


def main() -> None:
    for is_plus, words in groupby(sys.argv[1:], "+".__eq__):
        if not is_plus:
            pipeline.main(list(words), standalone_mode=False)


if __name__ == "__main__":
    main()
