"""Changes of a queue's options, as ``fair set`` and ``fair pause``, with ``--keep`` and without."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from celery_fair.brokers.kept import Keeping, KeptQueue
from celery_fair.operate import queues
from celery_fair.operate.answers import Answers
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.queues import KEPT, kept_by
from celery_fair.operate.workers import Workers
from celery_fair.web.actions import Undo
from celery_fair.web.change import (
    Change,
    Prospect,
    RefusedError,
    act_of,
    cap_effect,
    fields_of,
    rate_effect,
    words_of,
    written,
)
from celery_fair.web.forms import Form
from celery_fair.web.sentences import percent
from celery_fair.web.site import Site
from celery_fair.web.snapshot import Rows, Snapshot

__all__ = ["QueueChange", "foreseen_target"]

_NOT_KEPT = (
    "to keep it for workers that start later takes a Redis: as broker, or fair_key_store ="
    " 'redis://…'. Nothing was changed."
)

_OPTIONS = ("quantum", "rate", "burst", "max_in_flight")


class QueueChange(Change):
    """Of a queue, at all workers that consume it."""

    path = "queue"

    def __init__(self, site: Site, form: Form) -> None:
        self._site = site
        self._queue = form.exact("name")
        self._act = act_of(form, "pause", "resume")
        self._keep = bool(form.text("keep")) and self._act != "resume"
        if self._keep and not site.keeps:
            raise RefusedError(_NOT_KEPT)
        self.fields = fields_of(form, (*_OPTIONS, "keep"))
        self.about = f"queue {self._queue}"
        self._options = {} if self._act else self._checked()
        self.what = (self._act or written(self._options)) + (", kept" if self._keep else "")

    def _checked(self) -> dict[str, Any]:
        return queues.live_options(self._queue, words_of(self.fields, _OPTIONS))

    def prospect(self) -> Prospect:
        snapshot = self._site.collector.look()
        consumers = _consumers(snapshot, self._queue)
        if self._act:
            rows = [(w, *_paused(row, self._act)) for w, row in consumers.items()]
            return Prospect(self._effects_of_act(snapshot), rows)
        with self._site.workers() as workers:
            _refuse(queues.willing(workers, self._queue, self._options))
        rows = [(w, _now(row, self._options), self.what) for w, row in consumers.items()]
        return Prospect(list(self._effects(snapshot, consumers)), rows)

    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        known = _consumers(self._site.collector.look(), self._queue)
        with self._site.workers() as workers:
            now = workers.ask("fair_status", named=list(known)).good
            consumers = {w: rows[self._queue] for w, rows in now.items() if self._queue in rows}
            if self._act:
                return self._turn(workers, consumers)
            changed = queues.set_options(workers, self._queue, self._options, self._keep)
        if changed.refused:
            _refuse(changed.answers)
        good = changed.answers.good
        before = {w: _before(consumers[w], self._options) for w in good if w in consumers}
        undo = _SetUndo(self._site, self._queue, before, changed.kept, list(self._options))
        if not good:
            undo.undo()
            raise RefusedError("; ".join(f"{w}: {e}" for w, e in changed.answers.errors.items()))
        return _result(changed.answers), undo.undo

    def _turn(self, workers: Workers, consumers: Rows) -> tuple[Mapping[str, str], Undo]:
        """Pause it or resume it, which ends a pause that is kept, too."""
        paused = self._act == "pause"
        turned = [w for w, row in consumers.items() if _is_turned(row, self._act)]
        if paused:
            changed = queues.pause(workers, self._queue, self._keep)
        else:
            changed = queues.resume(workers, self._queue)
        noted = {"kept pause": changed.note} if changed.note else {}
        other = "resume" if paused else "pause"
        undo = _PauseUndo(self._site, self._queue, other, turned, changed.kept)
        return _result(changed.answers) | noted, undo.undo

    def _effects_of_act(self, snapshot: Snapshot) -> list[str]:
        queue = snapshot.queues[self._queue]
        if self._act == "resume":
            return [f"Its messages start again; {queue.backlog:,} wait."]
        return [
            f"None of its messages starts until it is resumed; {queue.in_flight:,} run on.",
            f"{queue.backlog:,} wait, as does what is published now; others share what it leaves.",
            KEPT
            if self._keep
            else "It lasts until each worker ends: one that starts later is not paused.",
        ]

    def _effects(self, snapshot: Snapshot, consumers: Rows) -> Any:
        options, queue = self._options, snapshot.queues[self._queue]
        if (quantum := options.get("quantum")) is not None:
            then = foreseen_target(snapshot, self._queue, float(quantum))
            now = f"from {percent(queue.target)} " if queue.target else ""
            yield (
                f"Its target share goes {now}to {percent(then)}, while those queues are active with"
                " it that are active now. It holds for what waits already, from the next round on."
            )
        if "rate" in options:
            yield rate_effect(options["rate"], queue.per_second, len(consumers))
        if "max_in_flight" in options:
            yield cap_effect(options["max_in_flight"], queue.in_flight)
        yield (
            KEPT
            if self._keep
            else "It lasts until each worker ends: one that starts later begins with its settings,"
            " or with what was kept before. To keep it, put it into fair_queues."
        )


class _SetUndo(NamedTuple):
    """Gives each worker what it had before."""

    site: Site
    queue: str
    before: Mapping[str, Mapping[str, Any]]
    kept: KeptQueue | None
    options: Sequence[str]

    def undo(self) -> Mapping[str, str]:
        result: dict[str, str] = {}
        if (kept := self.kept) is not None:
            again = partial(Keeping.take_back, queue=self.queue, before=kept, options=self.options)
            kept_by(self.site.app, again)
        with self.site.workers() as workers:
            for worker, options in self.before.items():
                result |= _told_one(workers, worker, "fair_set", self.queue, options=dict(options))
        return result


class _PauseUndo(NamedTuple):
    """Pauses or resumes what was not so before."""

    site: Site
    queue: str
    act: str
    turned: Sequence[str]
    kept: KeptQueue | None

    def undo(self) -> Mapping[str, str]:
        result: dict[str, str] = {}
        if (kept := self.kept) is not None:
            kept_by(self.site.app, partial(Keeping.pause, queue=self.queue, paused=kept.paused))
        with self.site.workers() as workers:
            for worker in self.turned:
                result |= _told_one(workers, worker, f"fair_{self.act}", self.queue)
        return result


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


def _consumers(snapshot: Snapshot, name: str) -> Rows:
    found = {worker: rows[name] for worker, rows in snapshot.workers.items() if name in rows}
    if not found:
        raise RefusedError(f"no fair worker that answers consumes a queue {name!r}")
    return found


def _refuse(answers: Answers) -> None:
    """Raise if a worker would not make a change."""
    for worker, text in answers.errors.items():
        raise RefusedError(f"{worker}: {text}. Nothing was changed.")


def _told_one(workers: Any, worker: str, command: str, queue: str, **more: Any) -> dict[str, str]:
    try:
        answers = workers.ask(command, named=[worker], queue=queue, **more)
    except NoAnswerError as exc:
        return {worker: str(exc)}
    return _result(answers)


def _result(answers: Answers) -> dict[str, str]:
    done = {worker: str(answer["ok"]) for worker, answer in answers.good.items()}
    return done | {worker: f"error: {text}" for worker, text in answers.errors.items()}


def _before(row: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a worker has now of what is to be changed."""
    before = {name: row[name] for name in options if name != "burst" or row["rate"] is not None}
    if before.get("rate") is not None:
        before["rate"] = f"{before['rate']!r}/s"
        before["burst"] = row["burst"]
    return before


def _now(row: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    return written({name: row[name] for name in options})


def _paused(row: Mapping[str, Any], act: str) -> tuple[str, str]:
    return "paused" if row["held"] == "paused" else "not paused", f"{act}d"


def _is_turned(row: Mapping[str, Any], act: str) -> bool:
    return bool((row["held"] == "paused") != (act == "pause"))
