"""What may be said of an attempt, and what could be: by what truly happened.

A verdict is *wrong* if it is not true: a dead letter that had started is not REPLAYABLE, finished
work is not LOST. FINISHED is also wrong where a second start could be hidden: where a process that
consumes the queue has written a record, after the publication, which is not there to be read. What
nobody can have read yet is no gap: what a process has written last, within the time that it takes
until a file is sealed. Whether that file is late, or still being written, cannot be told.

A verdict *could be proven* by an ideal reader, who knows which process consumes what. What is
missing he sees by the numbers around it, so he must have, of each process that consumes the queue,
every record in a row: from the last one before the time that counts, or its first, to the first one
after it, or its end; which he knows if it is written down there. The time that counts is `MARGIN`
longer on both sides than in truth, for he has but the hosts' clocks.
"""

from __future__ import annotations

from tests.worlds.files import ROTATE, Folder
from tests.worlds.world import BEAT, CLOCKS, NOW, SINCE, Attempt, Process, Record, World

__all__ = ["Truth"]

MARGIN = 4 * CLOCKS
"""Two clocks may differ by twice `CLOCKS`; as much again, to be told apart."""
SEALED = ROTATE + 4 * BEAT
"""Seconds within which a file is sealed: with a heartbeat after `ROTATE`, one of the first."""
TOLD = 30.0
"""Seconds within which a worker tells the end of a process of its own."""


class Truth:
    """Of one world, to who has read some of its files."""

    def __init__(self, world: World, folder: Folder, late_ones: bool) -> None:
        self._world = world
        self._folder = folder
        self._late_ones = late_ones
        self._read = folder.read(late_ones)
        self._kept = {
            process: [record for record in process.records if record in self._read]
            for process in world.processes
        }
        self._pending = {
            record
            for process, kept in self._kept.items()
            for record in process.records[kept[-1].seq + 1 if kept else 0 :]
            if record.at >= NOW - SEALED
        }

    def wrong(self, attempt: Attempt, verdict: str) -> str:
        """Say what is wrong with a verdict; nothing if it is not."""
        starts = [s for s in attempt.starts if not self._is_pending(attempt, *s)]
        once = len(starts) == 1
        faults = {
            "REPLAYABLE": (
                any(at < max(attempt.rejections, default=NOW) for at, _ in attempt.starts),
                "it had started",
            ),
            "LOST": (
                bool(attempt.finishes) or not once or starts[0][1].ended is None,
                "it was finished, or started again, or runs",
            ),
            "FINISHED": (
                not once or not attempt.finishes or self._could_hide(attempt),
                "it was started twice, or a gap could hide that it was",
            ),
            "DUPLICATE": (len(starts) < 2, "it was not started twice"),
        }
        is_wrong, why = faults.get(verdict, (False, ""))
        return f"{verdict}, and {why}" if is_wrong else ""

    def provable(self, attempt: Attempt) -> str:
        """Return the verdict that could be proven; nothing if none of those that need a proof."""
        if attempt.stamp is None or attempt.stamp < SINCE + MARGIN:
            return ""
        if not attempt.starts:
            return self._of_rejected(attempt)
        if len(attempt.starts) > 1 or attempt.rejections or not self._is_read(attempt, "started"):
            return ""
        at, owner = attempt.starts[0]
        since = attempt.published - MARGIN
        if not all(self._has(p, since, None) for p in self._consumers(attempt)):
            return ""
        if attempt.finishes:
            return "FINISHED" if self._is_read(attempt, "finished") else ""
        return "LOST" if self._is_lost(attempt, at, owner) else ""

    def _of_rejected(self, attempt: Attempt) -> str:
        if not attempt.rejections or not self._is_read(attempt, "rejected"):
            return ""
        since, until = attempt.published - MARGIN, attempt.rejections[-1] + MARGIN
        proven = all(self._has(p, since, until) for p in self._consumers(attempt))
        return "REPLAYABLE" if proven else ""

    def _is_lost(self, attempt: Attempt, at: float, owner: Process) -> bool:
        if owner.ended is None or not self._end_is_known(owner):
            return False
        told = owner.ended + TOLD + MARGIN
        return self._has(owner.worker, at, told) and all(
            self._has(p, at, told) for p in self._consumers(attempt)
        )

    def _consumers(self, attempt: Attempt) -> list[Process]:
        return [p for p in self._world.processes if self._works_on(p, attempt) and p.logs]

    def _works_on(self, process: Process, attempt: Attempt) -> bool:
        return process.works and attempt.queue in process.queues

    def _is_read(self, attempt: Attempt, kind: str) -> bool:
        """Whether every record of the kind is that was written of an attempt."""
        written = [
            record
            for process in self._world.processes
            for record in process.records
            if record.kind == kind
            and (record.fields["id"], record.fields["retries"]) == (attempt.id, attempt.retries)
        ]
        return bool(written) and all(record in self._read for record in written)

    def _is_pending(self, attempt: Attempt, at: float, process: Process) -> bool:
        return any(
            record.kind == "started" and record.at == at and record.fields["id"] == attempt.id
            for record in process.records
            if record in self._pending
        )

    def _could_hide(self, attempt: Attempt) -> bool:
        return any(
            record.at >= attempt.published
            and record not in self._read
            and record not in self._pending
            for process in self._consumers(attempt)
            for record in process.records
        )

    def _has(self, process: Process, since: float, until: float | None) -> bool:
        """Whether all of a process's records of a time are there, and none can be missing.

        Arguments:
            until: None: up to now, but for what is being written.
        """
        kept = self._kept[process]
        if not kept:
            return process.born > (until or float("inf"))
        before = [r for r in kept if r.at <= since]
        first = before[-1] if before else kept[0]
        if not before and first.seq != 0:
            return False
        after = [r for r in kept if until is not None and r.at >= until]
        if after:
            return self._in_a_row(kept, first, after[0])
        if not self._in_a_row(kept, first, kept[-1]):
            return False
        if process.ended is not None:
            return self._end_is_known(process)
        return until is None and self._reaches_open_file(process, kept[-1])

    def _in_a_row(self, kept: list[Record], first: Record, last: Record) -> bool:
        between = [r for r in kept if first.seq <= r.seq <= last.seq]
        return len(between) == last.seq - first.seq + 1

    def _reaches_open_file(self, process: Process, last: Record) -> bool:
        return all(r in self._pending for r in process.records if r.seq > last.seq)

    def _end_is_known(self, process: Process) -> bool:
        kept = self._kept[process]
        if not kept or kept[-1] is not process.records[-1]:
            return False
        return process.how == "exit" or self._folder.told_dead(process, self._late_ones)
