"""Changes of a key's options, as by ``fair keys``: kept, for all workers."""

from collections.abc import Mapping, Sequence
from typing import Any

from celery_fair.brokers.keyed.lists import Backlog
from celery_fair.operate.keys import live_options, opened, refuse_idle_burst, whole_tenant
from celery_fair.web.actions import Undo
from celery_fair.web.change import (
    Change,
    Prospect,
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

__all__ = ["KeyChange"]

_OPTIONS = ("weight", "rate", "burst", "max_in_flight")


class KeyChange(Change):
    """Of a key of a queue, for all workers."""

    path = "key"

    def __init__(self, site: Site, form: Form) -> None:
        self._site = site
        self._queue, self._act = form.exact("queue"), act_of(form, "pause", "resume", "reset")
        self._key = whole_tenant(form.exact("key"), "a tenant is changed as a whole")
        self.fields = {**fields_of(form, _OPTIONS), "queue": self._queue, "key": self._key}
        self.about = f"key {self._key or '(none)'} of queue {self._queue}"
        self._options = {} if self._act else self._checked()
        self.what = self._act or written(self._options)

    def _checked(self) -> dict[str, Any]:
        return live_options(self._queue, words_of(self.fields, _OPTIONS))

    def prospect(self) -> Prospect:
        with opened(self._site.app, self._queue) as keys:
            [found] = keys.ruled(self._key)
            refuse_idle_burst(self._queue, found, self._options)
            waiting = keys.ruled() if "weight" in self._options else []
        return Prospect(list(self._effects(found, waiting)), [self._row(found)])

    def do(self) -> tuple[Mapping[str, str], Undo | None]:
        with opened(self._site.app, self._queue) as keys:
            if self._act in {"pause", "resume"}:
                was_paused = keys.pause(self._key, self._act == "pause").is_paused
                return {"all": f"{self._act}d"}, lambda: self._let(was_paused)
            if self._act == "reset":
                keys.reset(self._key)
                return {"all": "has what the settings say"}, None
            found = keys.set(self._key, self._options)
        known = {**found.limits._asdict(), "weight": found.weight}
        before = {name: known[name] for name in self._options}
        if "rate" in before and found.limits.rate is not None:
            before["burst"] = found.limits.burst
        return {"all": f"has {self.what}"}, lambda: self._give(before)

    def _let(self, paused: bool) -> Mapping[str, str]:
        with opened(self._site.app, self._queue) as keys:
            keys.pause(self._key, paused)
        return {"all": "paused" if paused else "resumed"}

    def _give(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        with opened(self._site.app, self._queue) as keys:
            keys.set(self._key, options)
        return {"all": f"has {written(options)}"}

    def _row(self, found: Backlog) -> tuple[str, str, str]:
        if self._act in {"pause", "resume"}:
            return "all workers", "paused" if found.is_paused else "not paused", f"{self._act}d"
        known = {**found.limits._asdict(), "weight": found.weight}
        names = self._options or known
        return "all workers", written({name: known[name] for name in names}), self.what

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
            yield rate_effect(options["rate"], None, 1)
        if "max_in_flight" in options:
            yield cap_effect(options["max_in_flight"], found.running)
        yield "The broker or the store keeps it: it holds for workers that start later, too."
