"""Queues and workers as they are now, and changes of a queue."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from starlette.exceptions import HTTPException

from celery_fair.operate import queues
from celery_fair.operate.answers import Answers
from celery_fair.operate.errors import InvalidRequestError, NoAnswerError
from celery_fair.operate.text import escaped
from celery_fair.web import collector
from celery_fair.web.forms import Form
from celery_fair.web.looks import Looks
from celery_fair.web.pages.changing import Change, as_before, written
from celery_fair.web.pages.listing import drawn, listing
from celery_fair.web.site import Site
from celery_fair.web.snapshot import Rows, Snapshot

# What lists can be sorted by.
_QUEUES = (
    *("name", "quantum", "target_share", "share", "per_second", "backlog", "waiting_seconds"),
    *("in_flight", "missed", "held_workers"),
)
_WORKERS = ("name", "queues", "per_second", "buffered", "in_flight", "held_queues")
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
            "with_aims": any(queue["aim"] for queue in queues),
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
        rows = [{"name": queue, **row} for queue, row in snapshot.workers[name].items()]
        listed = listing(rows, query, _ROWS, "-class")
        return {"snapshot": snapshot, "worker": snapshot.sums[name], "listing": listed}

    def lines(self, query: Mapping[str, str], before: Any) -> tuple[Any, Any]:
        """Return whose lines are drawn, and those: their ends, if that is what was drawn before."""
        look, history = self._site.collector.look, self._site.collector.history
        names, figures = [query.get("name", "")], collector.FIGURES
        if "name" not in query:
            some = sorted(look().queues.values(), key=lambda queue: queue["name"])
            some.sort(key=itemgetter("target_share", "backlog"), reverse=True)
            names = drawn((queue["name"] for queue in some), query)
            figures = ("share", "target_share")
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


class QueueChange(Change):
    """Of a queue, at all workers that consume it, as by ``fair set`` and ``fair pause``."""

    path = "queue"
    acts = ("pause", "resume")
    known = ("quantum", "rate", "burst", "max_in_flight")

    def __init__(self, site: Site, form: Form) -> None:
        super().__init__(site, form)
        self.keep = "keep" in self.fields and self.act != "resume"
        if self.keep:
            self.what += ", kept"
        self.about = f"queue {self.queue}"

    def parsed(self, words: Sequence[str]) -> dict[str, Any]:
        return queues.live_options(self.queue, words)

    def prospect(self) -> dict[str, Any]:
        snapshot, consumers = self._consumers()
        if not self.act:
            with self.site.workers() as workers:
                self._refuse(queues.willing(workers, self.queue, self.options))
        quantum = self.options.get("quantum")
        return {
            "rows": [(worker, *self._row(row)) for worker, row in consumers.items()],
            "queue": snapshot.queues[self.queue],
            "then": quantum and foreseen_target(snapshot, self.queue, float(quantum)),
        }

    def do(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        _, consumers = self._consumers()
        with self.site.workers() as workers:
            if self.act == "pause":
                changed = queues.pause(workers, self.queue, self.keep)
            elif self.act:
                changed = queues.resume(workers, self.queue)
            else:
                changed = queues.set_options(workers, self.queue, self.options, self.keep)
        if not changed.answers.good:
            self._refuse(changed.answers)
        done = {worker: str(answer["ok"]) for worker, answer in changed.answers.good.items()}
        failed = {worker: f"error: {text}" for worker, text in changed.answers.errors.items()}
        note = {"note": changed.note} if changed.note else {}
        back = self._back(consumers.values(), self.keep or changed.kept is not None)
        return done | failed | note, back

    def _consumers(self) -> tuple[Snapshot, Rows]:
        snapshot = self.site.collector.look()
        found = snapshot.consumers(self.queue)
        if not found:
            text = f"no fair worker that answers consumes a queue {self.queue!r}"
            raise InvalidRequestError(text)
        return snapshot, found

    def _back(self, rows: Iterable[Mapping[str, Any]], was_kept: bool) -> Mapping[str, str]:
        """Return the fields of a form that takes it back, where all workers had the same.

        Arguments:
            rows: what workers had.
            was_kept: whether it was kept for others, too, or what it has ended.
        """
        keep = {"keep": "yes"} if was_kept else {}
        if self.act == "pause":
            return {"act": "resume"}
        if self.act:
            return {"act": "pause", **keep}
        before = [as_before(row, self.options) for row in rows]
        return before[0] | keep if before and before.count(before[0]) == len(before) else {}

    def _refuse(self, answers: Answers) -> None:
        for worker, text in answers.errors.items():
            raise InvalidRequestError(f"{worker}: {text}. Nothing was changed.")

    def _row(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Return what a worker has now, and what it is to have."""
        if not self.act:
            return written({name: row[name] for name in self.options}), self.what
        return "paused" if row["held"] == "paused" else "not paused", f"{self.act}d"


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
