"""What a worker holds, sample by sample, and whether that grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psutil

ALLOWED = {"connections": 1, "channels": 1, "descriptors": 1, "threads": 1, "memory": 4.0}
"""By how much the least of the last third may exceed the least of the middle third; memory in MB.

The first third is for what is made once: imports, pools, the allocator's arenas. What comes and
goes (a connection that has just been cut, an answer that is awaited) makes some samples higher, and
no third's least one; a leak makes all later samples higher. One that loses one thing in each cycle
adds a third of the cycles to it; one in ten cycles, a thirtieth, which shows in 60 cycles.
"""

LEAST = 9
"""Samples without which nothing can be said."""

Sample = Mapping[str, float]


def of_process(pid: int) -> Sample:
    process = psutil.Process(pid)
    with process.oneshot():
        return {
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "memory": round(process.memory_info().rss / 2**20, 1),
        }


def thirds(series: Sequence[float]) -> tuple[float, float, float]:
    """Return the least of each third."""
    third = len(series) // 3
    return min(series[:third]), min(series[third : 2 * third]), min(series[2 * third :])


def grows(name: str, series: Sequence[float]) -> bool:
    """Whether a figure grows by the rule of `ALLOWED`."""
    if len(series) < LEAST:
        raise ValueError(f"{len(series)} samples of {name} are too few: {LEAST} at least")
    _, middle, last = thirds(series)
    return last - middle > ALLOWED[name]
