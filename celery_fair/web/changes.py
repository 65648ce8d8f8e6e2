"""Changes of a queue's or a key's options: what one will do, doing it, and one step back.

What workers are told holds until they end, as ``fair set``. What is said of a key is kept by the
broker or the store, as ``fair set-key``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.cli.keys.access import rules_of, whole_tenant
from celery_fair.cli.live.answers import Answers, NoAnswer
from celery_fair.cli.live.figures import figure
from celery_fair.cli.live.set import parse_assignments, told
from celery_fair.cli.options import assignments
from celery_fair.settings import live_key_options
from celery_fair.web.actions import Undo
from celery_fair.web.forms import Form
from celery_fair.web.sentences import percent
from celery_fair.web.site import Site
from celery_fair.web.snapshot import Rows, Snapshot

__all__ = ["Change", "KeyChange", "Prospect", "QueueChange", "RefusedError", "foreseen_target"]

_QUEUE_OPTIONS = ("quantum", "rate", "burst", "max_in_flight")
_KEY_OPTIONS = ("weight", "rate", "burst", "max_in_flight")


class RefusedError(Exception):
    """A change cannot be made; the message says why, and nothing has happened."""


class Prospect(NamedTuple):
    """What a change will do.

    Attributes:
        effects: in sentences.
        rows: at which worker what becomes what.
    """

    effects: Sequence[str]
    rows: Sequence[tuple[str, str, str]]


class Change(ABC):
    """Something that is to be changed.

    Attributes:
        what: in a few words.
        about: what is changed.
        fields: of the form that asks for it.
        path: of the page that it is asked for on.
    """

    what: str
    about: str
    fields: Mapping[str, str]
    path: str

    @abstractmethod
    def prospect(self) -> Prospect:
        """Say what it will do; nothing is changed.

        Raises:
            RefusedError: it cannot be done.
        """

    @abstractmethod
    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        """Do it; return what became of it, and what takes it back.

        Raises:
            RefusedError: it cannot be done.
        """


class QueueChange(Change):
    """Of a queue, at all workers that consume it."""

    path = "queue"

    def __init__(self, site: Site, form: Form) -> None:
        self._site = site
        self._queue = form.exact("name")
        self._act = _act(form, "pause", "resume")
        self.fields = _fields(form, _QUEUE_OPTIONS)
        self.about = f"queue {self._queue}"
        self._options = {} if self._act else self._checked()
        self.what = self._act or _written(self._options)

    def _checked(self) -> dict[str, Any]:
        words = _words(self.fields, _QUEUE_OPTIONS)
        try:
            return parse_assignments(self._queue, words)
        except click.UsageError as exc:
            raise RefusedError(exc.message) from None

    def prospect(self) -> Prospect:
        snapshot = self._site.collector.look()
        consumers = _consumers(snapshot, self._queue)
        if self._act:
            rows = [(w, *_paused(row, self._act)) for w, row in consumers.items()]
            return Prospect(self._effects_of_act(snapshot), rows)
        with self._site.workers() as workers:
            self._willing(workers)
        rows = [(w, _now(row, self._options), self.what) for w, row in consumers.items()]
        return Prospect(list(self._effects(snapshot, consumers)), rows)

    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        known = _consumers(self._site.collector.look(), self._queue)
        with self._site.workers() as workers:
            now = _asked(workers, "fair_status", named=list(known)).good
            consumers = {w: rows[self._queue] for w, rows in now.items() if self._queue in rows}
            if self._act:
                answers = _asked(workers, f"fair_{self._act}", queue=self._queue)
                other = "resume" if self._act == "pause" else "pause"
                turned = [w for w, row in consumers.items() if _is_turned(row, self._act)]
                return _result(answers), _PauseUndo(self._site, self._queue, other, turned).undo
            try:
                answers = told(workers, self._willing(workers), self._queue, self._options)
            except NoAnswer as exc:
                raise RefusedError(exc.message) from None
        before = {
            worker: _before(consumers[worker], self._options)
            for worker in answers.good
            if worker in consumers
        }
        return _result(answers), _SetUndo(self._site, self._queue, before).undo

    def _willing(self, workers: Any) -> Answers:
        options = self._options
        willing = _asked(workers, "fair_set", queue=self._queue, options=options, check=True)
        if willing.errors:
            worker, text = next(iter(willing.errors.items()))
            raise RefusedError(f"{worker}: {text}. Nothing was changed.")
        return willing

    def _effects_of_act(self, snapshot: Snapshot) -> list[str]:
        queue = snapshot.queues[self._queue]
        if self._act == "resume":
            return [f"Its messages start again; {queue.backlog:,} wait."]
        return [
            f"None of its messages starts until it is resumed; {queue.in_flight:,} run on.",
            f"{queue.backlog:,} wait, as does what is published now; others share what it leaves.",
            "It lasts until each worker ends: one that starts later is not paused.",
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
            yield _rate_effect(options["rate"], queue.per_second, len(consumers))
        if "max_in_flight" in options:
            yield _cap_effect(options["max_in_flight"], queue.in_flight)
        yield (
            "It lasts until each worker ends: one that starts later begins with its settings. To"
            " keep it, put it into fair_queues."
        )


class KeyChange(Change):
    """Of a key of a queue, for all workers."""

    path = "key"

    def __init__(self, site: Site, form: Form) -> None:
        self._site = site
        self._queue, self._act = form.exact("queue"), _act(form, "pause", "resume", "reset")
        try:
            self._key = whole_tenant(form.exact("key"), "a tenant is changed as a whole")
        except click.UsageError as exc:
            raise RefusedError(exc.message) from None
        self.fields = {**_fields(form, _KEY_OPTIONS), "queue": self._queue, "key": self._key}
        self.about = f"key {self._key or '(none)'} of queue {self._queue}"
        self._options = {} if self._act else self._checked()
        self.what = self._act or _written(self._options)

    def _checked(self) -> dict[str, Any]:
        words = _words(self.fields, _KEY_OPTIONS)
        try:
            return live_key_options(self._queue, assignments(words, "weight=5 or rate=10/s"))
        except click.UsageError as exc:
            raise RefusedError(exc.message) from None
        except ImproperlyConfigured as exc:
            raise RefusedError(str(exc)) from None

    def prospect(self) -> Prospect:
        with _ruling(self._site, self._queue) as (lists, _):
            [found] = lists.look(self._key)[2]
            waiting = lists.look()[2] if "weight" in self._options else []
            row = self._row(found)
        return Prospect(list(self._effects(found, waiting)), [row])

    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        with _ruling(self._site, self._queue) as (lists, _):
            [found] = lists.look(self._key)[2]
            if self._act in {"pause", "resume"}:
                lists.pause(self._key, self._act == "pause")
                return {"all": f"{self._act}d"}, lambda: self._let(found.is_paused)
            if self._act == "reset":
                lists.reset(self._key)
                return {"all": "has what the settings say"}, None
            lists.set(self._key, self._options)
        known = {**found.limits._asdict(), "weight": found.weight}
        before = {name: known[name] for name in self._options}
        if "rate" in before and found.limits.rate is not None:
            before["burst"] = found.limits.burst
        return {"all": f"has {self.what}"}, lambda: self._give(before)

    def _let(self, paused: bool) -> Mapping[str, str]:
        with _ruling(self._site, self._queue) as (lists, _):
            lists.pause(self._key, paused)
        return {"all": "paused" if paused else "resumed"}

    def _give(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        with _ruling(self._site, self._queue) as (lists, _):
            lists.set(self._key, options)
        return {"all": f"has {_written(options)}"}

    def _row(self, found: Backlog) -> tuple[str, str, str]:
        if self._act in {"pause", "resume"}:
            return "all workers", "paused" if found.is_paused else "not paused", f"{self._act}d"
        known = {**found.limits._asdict(), "weight": found.weight}
        names = self._options or known
        return "all workers", _written({name: known[name] for name in names}), self.what

    def _effects(self, found: Backlog, waiting: Sequence[Backlog]) -> Any:
        options = self._options
        if self._act == "pause":
            yield f"No worker starts its messages until it is resumed; {found.waiting:,} wait."
        elif self._act == "resume":
            yield f"Its messages start again; {found.waiting:,} wait."
        elif self._act == "reset":
            yield "It has what fair_keys says again. This cannot be taken back here."
        if (weight := options.get("weight")) is not None:
            others = sum(each.weight for each in waiting if each.tenant != self._key)
            now, then = found.weight / (others + found.weight), weight / (others + weight)
            yield (
                f"Its share goes from {percent(now)} to {percent(then)} of what the queue gets,"
                f" while those {len(waiting)} keys wait with it that wait now. It holds for what"
                " waits already."
            )
        if "rate" in options:
            yield _rate_effect(options["rate"], None, 1)
        if "max_in_flight" in options:
            yield _cap_effect(options["max_in_flight"], found.running)
        yield "The broker or the store keeps it: it holds for workers that start later, too."


class _SetUndo(NamedTuple):
    """Gives each worker what it had before."""

    site: Site
    queue: str
    before: Mapping[str, Mapping[str, Any]]

    def undo(self) -> Mapping[str, str]:
        result: dict[str, str] = {}
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

    def undo(self) -> Mapping[str, str]:
        result: dict[str, str] = {}
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


def _asked(workers: Any, command: str, **arguments: Any) -> Answers:
    try:
        answers: Answers = workers.ask(command, **arguments)
    except NoAnswer as exc:
        raise RefusedError(exc.message) from None
    return answers


def _told_one(workers: Any, worker: str, command: str, queue: str, **more: Any) -> dict[str, str]:
    try:
        answers = workers.ask(command, named=[worker], queue=queue, **more)
    except NoAnswer as exc:
        return {worker: exc.message}
    return _result(answers)


def _result(answers: Answers) -> dict[str, str]:
    done = {worker: str(answer["ok"]) for worker, answer in answers.good.items()}
    return done | {worker: f"error: {text}" for worker, text in answers.errors.items()}


def _act(form: Form, *acts: str) -> str:
    act = form.text("act")
    if act and act not in acts:
        raise RefusedError(f"{act!r} is none of {', '.join(acts)}")
    return act


def _fields(form: Form, options: Sequence[str]) -> dict[str, str]:
    names = ("act", *options)
    return {"name": form.exact("name"), **{n: form.text(n) for n in names if form.text(n)}}


def _words(fields: Mapping[str, str], options: Sequence[str]) -> list[str]:
    words = [f"{name}={fields[name]}" for name in options if name in fields]
    if not words:
        raise RefusedError("nothing was filled in: say what is to be changed")
    return words


def _written(options: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={'none' if value is None else _number(name, value)}"
        for name, value in options.items()
    )


def _number(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{figure(value)}/s" if name == "rate" else figure(value)


def _before(row: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a worker has now of what is to be changed."""
    before = {name: row[name] for name in options if name != "burst" or row["rate"] is not None}
    if before.get("rate") is not None:
        before["rate"] = f"{before['rate']!r}/s"
        before["burst"] = row["burst"]
    return before


def _now(row: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    return _written({name: row[name] for name in options})


def _paused(row: Mapping[str, Any], act: str) -> tuple[str, str]:
    return "paused" if row["held"] == "paused" else "not paused", f"{act}d"


def _is_turned(row: Mapping[str, Any], act: str) -> bool:
    return bool((row["held"] == "paused") != (act == "pause"))


def _rate_effect(rate: Any, now: float | None, workers: int) -> str:
    if rate is None:
        return "It may start any number a second."
    today = "" if now is None else f"; {figure(now)} a second are started now"
    said = f"{figure(rate)}/s" if isinstance(rate, int | float) else rate
    where = f" at each of its {workers} workers, or at all together if its scope is the cluster"
    return f"It starts at most {said}{where if workers > 1 else ''}{today}."


def _cap_effect(cap: Any, running: int) -> str:
    if cap is None:
        return "Any number of its tasks may run at once."
    return (
        f"At most {cap} of its tasks run at once; {running:,} run now, and end as they would have."
    )


@contextmanager
def _ruling(site: Site, queue: str) -> Iterator[tuple[KeyedLists, bool]]:
    """Give `rules_of`, whose errors are refusals."""
    try:
        with rules_of(site.ctx, queue) as rules:
            yield rules
    except click.ClickException as exc:
        raise RefusedError(exc.message) from None
