"""``python -m tests.worlds --worlds 10000 --seed 1``: judge so many random worlds."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from celery_fair.pipeline.session import open_session
from tests.worlds.judged import PROVEN, Result, judge

TARGET = 0.8


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--job", type=int, default=1000, help="worlds in one job of Spark's")
    parser.add_argument("--missed", type=int, default=0, help="show so many that were not proven")
    options = parser.parse_args()
    spark = open_session("local[2]", "2g", {"spark.sql.shuffle.partitions": "4"})
    begun, results = time.monotonic(), {False: Result(), True: Result()}
    with tempfile.TemporaryDirectory() as scratch:
        end = options.first + options.worlds
        for first in range(options.first, end, options.job):
            numbers = range(first, min(first + options.job, end))
            for late_ones, result in results.items():
                result.add(judge(spark, numbers, options.seed, late_ones, Path(scratch)))
            wrong = sum(len(result.wrong) for result in results.values())
            seconds = time.monotonic() - begun
            print(
                f"{numbers.stop - options.first} worlds, {seconds:.0f} s, {wrong} wrong",
                file=sys.stderr,
                flush=True,
            )
    for late_ones, result in results.items():
        _show("with the late files" if late_ones else "without the late files", result)
        print("\n".join(result.wrong[:50]))
        print("\n".join(result.missed[: options.missed]))
    good = all(not r.wrong and r.share >= TARGET for r in results.values())
    spark.stop()
    return 0 if good else 1


def _show(when: str, result: Result) -> None:
    print(f"\n{result.worlds} worlds, {result.attempts} attempts, {when}:")
    print(", ".join(f"{n} {verdict}" for verdict, n in result.verdicts.most_common()))
    for verdict in PROVEN:
        could = result.provable[verdict]
        part = result.proven[verdict] / could if could else 1.0
        print(f"{verdict}: {result.proven[verdict]} of {could} that could be proven, {part:.1%}")
    print(f"all: {result.share:.1%}; wrong: {len(result.wrong)}")


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    sys.exit(main())
