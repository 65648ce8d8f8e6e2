"""Queues and workers as they are now, and changes of a queue."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from starlette.exceptions import HTTPException

from celery_fair.brokers.kept import Keeping, KeptQueue
from celery_fair.operate import queues
from celery_fair.operate.answers import Answers
from celery_fair.operate.errors import NoAnswerError, OperateError
from celery_fair.operate.queues import kept_by
from celery_fair.operate.text import escaped
from celery_fair.operate.workers import Workers
from celery_fair.web import collector
from celery_fair.web.actions import NotDoneError, Undo
from celery_fair.web.forms import Form
from celery_fair.web.looks import Looks
from celery_fair.web.pages.changing import Change, written
from celery_fair.web.pages.listing import drawn, listing
from celery_fair.web.site import Site
from celery_fair.web.snapshot import Rows, Snapshot

_NOT_KEPT = (
    "to keep it for workers that start later takes a Redis: as broker, or fair_key_store ="
    " 'redis://…'. Nothing was changed."
)

# What lists can be sorted by.
_QUEUES = (
    *("name", "quantum", "target", "share", "per_second", "p95", "backlog", "oldest", "in_flight"),
    *("missed", "held_at"),
)
_WORKERS = ("name", "rows", "per_second", "buffered", "in_flight", "held_at")
_ROWS = ("name", "class", "target_share", "share", "buffered", "in_flight", "served", "held")


class QueuePages:
    """What fills in pages of queues and workers, and their lines."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._explained = Looks(self._explanations)

    def queues(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the table of all queues."""
        snapshot = self._site.collector.look()
        queues = snapshot.queues.values()
        return {
            "snapshot": snapshot,
            "listing": listing(queues, query, _QUEUES, "name"),
            "with_waits": any(queue.waits for queue in queues),
            "with_aims": any(queue.aim for queue in queues),
        }

    def queue(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the page of one queue.

        Raises:
            HTTPException: no worker consumes it.
        """
        name, snapshot = query.get("name", ""), self._site.collector.look()
        if name not in snapshot.queues:
            raise HTTPException(404, f"No fair worker that answers consumes a queue {name!r}.")
        return {
            "snapshot": snapshot,
            "queue": snapshot.queues[name],
            "explained": self._explained.of(name),
            "at": snapshot.consumers(name),
        }

    def workers(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the table of workers."""
        snapshot = self._site.collector.look()
        listed = listing(snapshot.sums.values(), query, _WORKERS, "name")
        return {"snapshot": snapshot, "listing": listed}

    def worker(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the page of one worker.

        Raises:
            HTTPException: it does not answer.
        """
        name, snapshot = query.get("name", ""), self._site.collector.look()
        if name not in snapshot.workers:
            raise HTTPException(404, f"No fair worker {name!r} answers.")
        rows = [SimpleNamespace(name=q, **row) for q, row in snapshot.workers[name].items()]
        listed = listing(rows, query, _ROWS, "-class")
        return {"snapshot": snapshot, "worker": snapshot.sums[name], "listing": listed}

    def lines(self, query: Mapping[str, str], before: Any) -> tuple[Any, Any]:
        """Return whose lines are drawn, and those: their ends, if that is what was drawn before."""
        look, history = self._site.collector.look, self._site.collector.history
        names, figures = [query.get("name", "")], collector.FIGURES
        if "name" not in query:
            some = list(look().queues.values())
            some.sort(key=lambda queue: (-queue.target, -queue.backlog, queue.name))
            names, figures = drawn((queue.name for queue in some), query), ("share", "target")
        whole = names != before
        told = history.lines(names, figures, slice(None if whole else -1, None))
        return names, told | {"names": [*map(escaped, names)], "whole": whole}

    def _explanations(self, queue: str) -> Iterator[dict[str, str]]:
        """Yield what each worker says of why nothing of a queue starts, as `fair explain` does."""
        with self._site.workers() as workers:
            while True:
                named = list(self._site.collector.look().consumers(queue))
                try:
                    answers = workers.ask("fair_explain", named=named, queue=queue)
                    said = {worker: str(answer["text"]) for worker, answer in answers.good.items()}
                    yield said | answers.errors
                except NoAnswerError as exc:
                    yield {"no worker": str(exc)}


_BACK = {"pause": "fair_resume", "resume": "fair_pause", "": "fair_set"}
"""What takes back what is done, by remote control."""


class QueueChange(Change):
    """Of a queue, at all workers that consume it, as by ``fair set`` and ``fair pause``."""

    path = "queue"
    acts = ("pause", "resume")
    known = ("quantum", "rate", "burst", "max_in_flight")

    def __init__(self, site: Site, form: Form) -> None:
        super().__init__(site, form)
        self.keep = "keep" in self.fields and self.act != "resume"
        if self.keep and not site.keeps:
            raise NotDoneError(_NOT_KEPT)
        if self.keep:
            self.what += ", kept"
        self.about = f"queue {self.queue}"

    def parsed(self, words: Sequence[str]) -> dict[str, Any]:
        return queues.live_options(self.queue, words)

    def prospect(self) -> dict[str, Any]:
        snapshot, consumers = self._consumers()
        if not self.act:
            with self.site.workers() as workers:
                self._willing(workers)
        quantum = self.options.get("quantum")
        return {
            "rows": [(worker, *self._row(row)) for worker, row in consumers.items()],
            "queue": snapshot.queues[self.queue],
            "then": quantum and foreseen_target(snapshot, self.queue, float(quantum)),
        }

    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        _, consumers = self._consumers()
        failed: dict[str, str] = {}
        with self.site.workers() as workers:
            now = workers.ask("fair_status", named=list(consumers)).good
            before = {
                worker: self._before(rows[self.queue])
                for worker, rows in now.items()
                if self.queue in rows and self._is_other(rows[self.queue])
            }
            willing = None if self.act else self._willing(workers)
            try:
                kept = self._kept()
            except OperateError as exc:
                if self.act != "resume":
                    raise
                kept = None  # workers are resumed all the same
                failed["kept pause"] = f"error: {exc}"
            try:
                if willing is None:
                    answers = workers.ask(f"fair_{self.act}", queue=self.queue)
                else:
                    answers = queues.told(workers, willing, self.queue, self.options)
            except NoAnswerError:
                self._take_back(kept)
                raise
        return _result(answers) | failed, partial(self._undo, kept, before)

    def _consumers(self) -> tuple[Snapshot, Rows]:
        snapshot = self.site.collector.look()
        found = snapshot.consumers(self.queue)
        if not found:
            raise NotDoneError(f"no fair worker that answers consumes a queue {self.queue!r}")
        return snapshot, found

    def _willing(self, workers: Workers) -> Answers:
        willing = queues.willing(workers, self.queue, self.options)
        for worker, text in willing.errors.items():
            raise NotDoneError(f"{worker}: {text}. Nothing was changed.")
        return willing

    def _kept(self) -> KeptQueue | None:
        """Have it kept, if it is to be; return what was kept before."""
        if self.keep and not self.act:
            return kept_by(self.site.app, lambda kept: kept.keep(self.queue, self.options))
        if self.keep or (self.act == "resume" and self.site.keeps):
            return self._keep_paused(self.act == "pause")
        return None

    def _keep_paused(self, paused: bool) -> KeptQueue:
        return kept_by(self.site.app, lambda kept: kept.pause(self.queue, paused))

    def _take_back(self, kept: KeptQueue | None) -> None:
        if kept is not None and self.act:
            self._keep_paused(kept.paused)
        elif kept is not None:
            again = partial(Keeping.take_back, queue=self.queue, before=kept, options=self.options)
            kept_by(self.site.app, again)

    def _undo(self, kept: KeptQueue | None, before: Mapping[str, Any]) -> dict[str, str]:
        """Give each worker what it had before."""
        self._take_back(kept)
        result: dict[str, str] = {}
        command, queue = _BACK[self.act], self.queue
        with self.site.workers() as workers:
            for worker, arguments in before.items():
                try:
                    answers = workers.ask(command, named=[worker], queue=queue, **arguments)
                    result |= _result(answers)
                except NoAnswerError as exc:
                    result[worker] = str(exc)
        return result

    def _row(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Return what a worker has now, and what it is to have."""
        if not self.act:
            return written({name: row[name] for name in self.options}), self.what
        return "paused" if row["held"] == "paused" else "not paused", f"{self.act}d"

    def _is_other(self, row: Mapping[str, Any]) -> bool:
        """Whether a worker is not paused, or resumed, already."""
        return not self.act or (row["held"] == "paused") != (self.act == "pause")

    def _before(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that give a worker again what it has now."""
        if self.act:
            return {}
        has_rate = row["rate"] is not None
        before = {n: row[n] for n in self.options if n != "burst" or has_rate}
        if "rate" in before and has_rate:
            before |= {"rate": f"{row['rate']!r}/s", "burst": row["burst"]}
        return {"options": before}


def foreseen_target(snapshot: Snapshot, name: str, quantum: float) -> float:
    """Return a queue's target share with another quantum, beside those that are active now.

    Of several workers, the one that serves more counts for more, as in `Snapshot.queues`.
    """
    total = weighed = 0.0
    for rows in [rows for rows in snapshot.workers.values() if name in rows]:
        weight = sum(row.get("cost_per_second", 0.0) for row in rows.values()) + 1e-9
        others = sum(
            row["quantum"] for queue, row in rows.items() if queue != name and row["target_share"]
        )
        total += weight
        weighed += weight * quantum / (quantum + others)
    return weighed / total if total else 0.0


def _result(answers: Answers) -> dict[str, str]:
    done = {worker: str(answer["ok"]) for worker, answer in answers.good.items()}
    return done | {worker: f"error: {text}" for worker, text in answers.errors.items()}
