"""The event log of a fleet that never was: so many events, each process by itself, always the same.

A process is a worker with four slots and six queues that writes some 20,000 records. A tenth of a
percent of its tasks is started twice, half a percent of its messages are rejected; a fifth of the
processes is killed in the middle of its work, some are silent, and a few have lost a record. Queues
are backlogged, empty (some of them starved) and throttled in turn.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.records import FIELDS, KINDS, VERSION
from celery_fair.pipeline.bronze import MICROSECONDS, RECORD

__all__ = ["PER_PROCESS", "records", "write_logs"]

PER_PROCESS = 20_000
PER_FILE = 1_000_000
T0 = 1_700_000_000.0
SLOTS = 4
QUANTA = {"interactive": 8.0, "reports": 4.0, "mail": 2.0, "bulk": 1.0, "sync": 1.0, "urgent": 4.0}
LEVELS = {"urgent": 1}
KEYS = 40
"""Cost keys of a task."""
HEARTBEAT = 10.0
GAP = 0.2
"""Seconds between two starts, on average."""
LIVES = ("exit", "exit", "exit", "dead", None)

Random = np.random.Generator


def write_logs(folder: Path, number: int, held_back: int = 0, per_file: int = PER_FILE) -> None:
    """Write so many records as workers do, a file for each process or several.

    Arguments:
        held_back: further records of the last process, which go into `folder`/../later: its log
            goes on while it is read.
        per_file: records in a file, at the most.
    """
    folder.mkdir(parents=True)
    later = folder.with_name("later")
    starts = list(range(0, number, PER_PROCESS))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as executor:
        done = [
            executor.submit(_write_log, folder, process, min(PER_PROCESS, number - first), per_file)
            for process, first in enumerate(starts[:-1])
        ]
        last = number - starts[-1]
        done.append(
            executor.submit(
                _write_log, folder, len(starts) - 1, last + held_back, per_file, later, last
            )
        )
        for each in done:
            each.result()


def _write_log(
    folder: Path,
    process: int,
    size: int,
    per_file: int,
    later: Path | None = None,
    first: int | None = None,
) -> None:
    rows = records(process, size).astype(object)
    rows = rows.where(rows.notna(), None)
    rows["v"] = VERSION
    for name in MICROSECONDS:
        if name in rows:
            whole = [None if each is None else round(each * 1e6) for each in rows[name]]
            rows[name] = pd.Series(whole, dtype=object)
    fields = {kind: [name for name in (*FIELDS, *KINDS[kind]) if name in rows] for kind in KINDS}
    lines = [
        json.dumps({name: row[name] for name in fields[row["kind"]]}, separators=(",", ":")) + "\n"
        for row in rows.to_dict("records")
    ]
    first = len(lines) if first is None else first
    since, name = int(rows.loc[0, "at"] / 1e6), rows.loc[0, "node"]
    pid, boot = rows.loc[0, "pid"], rows.loc[0, "boot"]
    cuts = [*range(0, first, per_file), *range(first, len(lines), per_file)]
    for count, (begin, end) in enumerate(pairwise([*cuts, len(lines)])):
        place = folder if begin < first else later
        assert place is not None
        host = place / str(name).partition("@")[2]
        host.mkdir(parents=True, exist_ok=True)
        path = host / str(FileName(since, str(name), pid, boot, count))
        path.write_text("".join(lines[begin:end]))


def records(number: int, size: int) -> pd.DataFrame:
    """Return the records of one process, `size` of them; times are seconds."""
    draw = np.random.default_rng((1967, number))
    begin = T0 + float(draw.uniform(0, 86_400))
    life = LIVES[number % len(LIVES)]
    runs = max(1, int(size * 0.46))
    length = runs * GAP
    parts = [
        _work(draw, number, begin, runs, life),
        _rejected(draw, number, begin, runs),
        _states(draw, begin, length),
        _life(begin, length, life),
    ]
    rows = pd.concat(parts, ignore_index=True).sort_values("at", kind="stable", ignore_index=True)
    rows = _sized(rows, size)
    rows["v"], rows["node"], rows["pid"] = VERSION, f"celery@{number % 50}", 1000 + number
    rows["boot"] = f"{number:010x}"
    rows["parent"] = rows["boot"].where(rows["kind"] == "process", None)
    rows["seq"] = np.arange(len(rows))
    if number % 20 == 7:  # the record of a start that is not here
        starts = rows.index[rows["kind"] == "started"]
        rows = rows.drop(index=starts[len(starts) // 2]).reset_index(drop=True)
    whole = [name for name, kind in RECORD.items() if kind == "long"]
    kept = [name for name in whole if name in rows and name not in MICROSECONDS]
    return rows.astype(dict.fromkeys(kept, "Int64"))


def _work(draw: Random, number: int, begin: float, runs: int, life: str | None) -> pd.DataFrame:
    """Starts and ends; of a process that was killed the last starts have no end."""
    at = begin + 1 + np.cumsum(draw.exponential(GAP, runs))
    task, key = draw.integers(0, 3, runs), draw.integers(0, KEYS, runs)
    runtime = draw.gamma(2.0, 0.15 * (1 + task) * (1 + key / KEYS))
    waited = draw.gamma(1.5, 4.0, runs)
    shared = {
        "id": [f"{number:08x}-{each:08x}" for each in range(runs)],
        "retries": 0,
        "task": np.char.add("shop.task", task.astype(str)),
        "queue": draw.choice(list(QUANTA), runs, p=np.array([*QUANTA.values()]) / 20),
        "cost_key": np.char.add("key", key.astype(str)),
    }
    started = pd.DataFrame(
        {
            "kind": "started",
            "at": at,
            **shared,
            "published": at - waited,
            "received": at - waited * draw.uniform(0, 0.5, runs),
            "redelivered": False,
            "repeatable": False,
            "cost": 1.0,
        }
    )
    finished = pd.DataFrame(
        {
            "kind": "finished",
            "at": at + runtime + 1e-4,
            **shared,
            "state": draw.choice(["SUCCESS", "FAILURE"], runs, p=[0.98, 0.02]),
            "runtime": runtime,
        }
    )
    twice = started.sample(frac=0.001, random_state=number)
    twice = twice.assign(at=twice["at"] + 0.5, redelivered=True)
    ended = finished if life == "exit" else finished[finished["at"] < at[-1]]
    return pd.concat([started, ended, twice], ignore_index=True)


def _rejected(draw: Random, number: int, begin: float, runs: int) -> pd.DataFrame:
    """Messages that came back: most were never started, as far as the log goes."""
    count = max(1, runs // 200)
    at = begin + 1 + np.sort(draw.uniform(0, runs * GAP, count))
    never = draw.random(count) < 0.8
    ids = [
        f"{number:08x}-{'r' if new else ''}{each * 150:08x}"
        for each, new in enumerate(never.tolist())
    ]
    return pd.DataFrame(
        {
            "kind": "rejected",
            "at": at,
            "id": ids,
            "retries": 0,
            "task": "shop.task0",
            "queue": "bulk",
            "published": at - draw.gamma(1.5, 4.0, count),
            "reason": "redelivered",
            "may_have_started": True,
        }
    )


def _states(draw: Random, begin: float, length: float) -> pd.DataFrame:
    """What state each queue is in, from then on."""
    found = []
    for queue, quantum in QUANTA.items():
        at = begin + np.cumsum(draw.exponential(length / 20, 25))
        at = np.concatenate(([begin + 0.5], at[at < begin + length]))
        states = draw.choice(["ready", "empty", "throttled"], len(at), p=[0.7, 0.2, 0.1])
        depth = np.where((states == "empty") & (draw.random(len(at)) < 0.4), 50.0, np.nan)
        level = LEVELS.get(queue, 0)
        fields = {"kind": "queue", "at": at, "queue": queue, "state": states, "depth": depth}
        found.append(pd.DataFrame({**fields, "quantum": quantum, "level": float(level)}))
    return pd.concat(found, ignore_index=True)


def _life(begin: float, length: float, life: str | None) -> pd.DataFrame:
    beats = np.arange(begin + HEARTBEAT, begin + length, HEARTBEAT)
    at, state = [begin, *beats], ["boot", *["heartbeat"] * len(beats)]
    if life is not None:
        at, state = [*at, begin + length * 1.1 + 60], [*state, life]
    same = {"concurrency": float(SLOTS), "pool": "thread", "heartbeat": HEARTBEAT, "dropped": 0.0}
    rows = pd.DataFrame({"kind": "process", "at": at, "state": state, **same})
    rows["quanta"] = [QUANTA] * len(rows)
    return rows


def _sized(rows: pd.DataFrame, size: int) -> pd.DataFrame:
    """Exactly so many rows: the last ends are left out, or there are more signs of life."""
    if len(rows) > size:
        last = rows.index[rows["kind"] == "finished"][size - len(rows) :]
        return rows.drop(index=last).head(size).reset_index(drop=True)
    at = np.linspace(rows["at"].min(), rows["at"].median(), size - len(rows) + 2)[1:-1]
    more = pd.DataFrame({"kind": "process", "at": at, "state": "heartbeat"})
    both = pd.concat([rows, more], ignore_index=True)
    return both.sort_values("at", kind="stable", ignore_index=True)
