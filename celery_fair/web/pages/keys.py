"""The keys (tenants) of the queues that are shared by them, and changes of these.

What is changed is kept for all workers, as by ``fair keys set`` and ``fair keys pause``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from celery_fair.brokers.keyed.lists import Backlog
from celery_fair.operate.keys import live_options, opened, watched, whole_tenant
from celery_fair.operate.keys.keys import refuse_idle_burst, why
from celery_fair.web.forms import Form
from celery_fair.web.looks import Looks
from celery_fair.web.pages.changing import Change, as_before, written
from celery_fair.web.site import Site

_SHOWN = 200


class KeyPages:
    """What fills in pages of keys."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._watched = Looks(self._keys)

    def keys(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the keys of a queue that have messages waiting."""
        queues = sorted(self._site.settings.keys)
        queue = query.get("queue") or (queues[0] if queues else "")
        if queue not in queues:
            if queue:
                raise HTTPException(404, f"There is no queue {queue!r} in fair_keys.")
            return {"queues": queues, "queue": "", "found": {}, "trouble": ""}
        return {"queues": queues, "queue": queue, **self._watched.of(queue)._asdict()}

    def key(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the page of one key, and why its messages do not start."""
        queue, key = query.get("queue", ""), whole_tenant(query.get("key", ""), "look at the whole")
        with opened(self._site.app, queue) as keys:
            found, _ = keys.backlog(key)
        return {"queue": queue, "key": key, "found": found, "why": why(queue, found)}

    def _keys(self, queue: str) -> Iterator[dict[str, Any]]:
        """Yield what `fair keys` finds in a queue, again and again."""
        for found in watched(self._site.app, queue, _SHOWN):
            yield found.as_dict()


class KeyChange(Change):
    """Of a key of a queue, for all workers."""

    path = "key"
    acts = ("pause", "resume", "reset")
    known = ("weight", "rate", "burst", "max_in_flight")

    def __init__(self, site: Site, form: Form) -> None:
        super().__init__(site, form)
        self._key = whole_tenant(form.get("key", ""), "a tenant is changed as a whole")
        self.about = f"key {self._key or '(none)'} of queue {self.queue}"

    def parsed(self, words: Sequence[str]) -> dict[str, Any]:
        return live_options(self.queue, words)

    def prospect(self) -> dict[str, Any]:
        with opened(self.site.app, self.queue) as keys:
            [found] = keys.ruled(self._key)
            refuse_idle_burst(self.queue, found, self.options)
            waiting = keys.ruled() if "weight" in self.options else []
        others = sum(each.weight for each in waiting if each.tenant != self._key)
        then = self.options.get("weight")
        now = _options(found)
        if self.act in {"pause", "resume"}:
            row = ("all workers", "paused" if found.is_paused else "not paused", f"{self.act}d")
        else:
            seen = {name: now[name] for name in self.options or now}
            row = ("all workers", written(seen), self.what)
        return {
            "rows": [row],
            "found": found,
            "share": found.weight / (others + found.weight),
            "then": None if then is None else then / (others + then),
            "beside": len(waiting),
        }

    def do(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        with opened(self.site.app, self.queue) as keys:
            if self.act == "reset":
                keys.reset(self._key)
                return {"all": "has what the settings say"}, {}
            if self.act:
                before = keys.pause(self._key, self.act == "pause")
                return {"all": f"{self.act}d"}, {"act": "pause" if before.is_paused else "resume"}
            before = keys.set(self._key, self.options)
        return {"all": f"has {self.what}"}, as_before(_options(before), self.options)


def _options(found: Backlog) -> dict[str, Any]:
    return {"weight": found.weight, **found.limits._asdict()}
