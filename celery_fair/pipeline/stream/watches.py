"""What is remembered of each subject, and when it is an alert. Time is an argument.

Records come file by file: those of one process in order, those of different processes in any order,
and those of a copied file twice. So what has been seen is recognised by event id or by time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_KEPT = 1000
"""Starts of a leashed queue that are remembered at the most."""


class Event(NamedTuple):
    """As `subjects` makes them."""

    event_id: str
    at: float
    node: str
    queue: str | None
    task: str | None
    state: str | None
    depth: int
    heartbeat: float


class Alert(NamedTuple):
    """What is wrong, with which subject, since when."""

    alert: str
    key: str
    at: float
    text: str


@dataclass(frozen=True)
class Limits:
    """The limits beyond which something is an alert.

    Attributes:
        starvation: seconds for which a queue may be empty here and backlogged at the broker.
        silence: heartbeats that may be missing.
        lag: seconds that a file may take to be sealed.
        memory: seconds after which a task's start is forgotten.
        leashes: queue to rate per second and burst.
    """

    starvation: float = 30.0
    silence: float = 3.0
    lag: float = 60.0
    memory: float = 86_400.0
    leashes: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class Memory(NamedTuple):
    """What to remember (None: nothing), and for how many seconds without news."""

    state: dict[str, Any] | None
    seconds: float | None = None


Watched = tuple[list[Alert], Memory]
_Watch = Callable[[str, dict[str, Any], list[Event], Limits], Watched]


def watch(
    about: str, key: str, state: dict[str, Any] | None, news: Iterable[Event], limits: Limits
) -> Watched:
    """Return alerts and what to remember of a subject, after news; none: its time has run out."""
    events = sorted(news, key=lambda event: (event.at, event.event_id))
    return _WATCHES[about](key, state or {}, events, limits)


def _start(key: str, state: dict[str, Any], news: list[Event], limits: Limits) -> Watched:
    if not news:
        return [], Memory(None)
    seen: list[str] = state.get("seen", [])
    alerts = []
    for event in news:
        if event.event_id in seen:
            continue
        if seen:
            text = f"task {event.task} of queue {event.queue} was started again on {event.node}"
            alerts.append(Alert("duplicate-start", key, event.at, text))
        seen = [*seen, event.event_id]
    return alerts, Memory({"seen": seen}, limits.memory)


def _queue(key: str, state: dict[str, Any], news: list[Event], limits: Limits) -> Watched:
    last, since, told = state.get("last", 0.0), state.get("since"), state.get("told", False)
    alerts = []
    for event in news:
        if event.at <= last:
            continue
        if since is not None and not told and event.at - since >= limits.starvation:
            alerts.append(_starved(key, since))
            told = True
        last = event.at
        if not (event.state == "empty" and event.depth > 0):
            since, told = None, False
        elif since is None:
            since, told = event.at, False
    if not news and since is not None and not told:
        alerts.append(_starved(key, since))
        told = True
    waits = since is not None and not told
    seconds = limits.starvation + limits.lag if waits else limits.memory
    if not news and not alerts:
        return [], Memory(None)
    return alerts, Memory({"last": last, "since": since, "told": told}, seconds)


def _starved(key: str, since: float) -> Alert:
    text = (
        "empty at the worker, backlogged at the broker: raise its prefetch, or look at the broker"
    )
    return Alert("starvation", key, since, text)


def _leash(key: str, state: dict[str, Any], news: list[Event], limits: Limits) -> Watched:
    """In no window of t seconds are there more than burst + rate t starts."""
    if not news:
        return [], Memory(None)
    rate, burst = limits.leashes[str(news[0].queue)]
    told = state.get("told", 0.0)
    known = {(at, event_id) for at, event_id in state.get("starts", [])}
    starts = sorted(known | {(event.at, event.event_id) for event in news})
    alerts = []
    least = float("inf")
    for number, (at, _) in enumerate(starts):
        least = min(least, number - rate * at)
        excess = number - rate * at - least + 1 - burst
        if excess > 1e-6 * burst + 1e-3 and at > told:
            told = at
            text = f"{excess:.3g} starts more than {burst:g} + {rate:g}/s allow"
            alerts = [Alert("leash-breach", key, at, text)]
    return alerts, Memory({"told": told, "starts": starts[-_KEPT:]}, limits.memory)


def _process(key: str, state: dict[str, Any], news: list[Event], limits: Limits) -> Watched:
    if not news:
        if state.get("ended") or state.get("told") or "last" not in state:
            return [], Memory(None)
        text = f"no heartbeat for more than {limits.silence:g} × {state['beat']:g} s, and no end"
        alert = Alert("silence", key, state["last"], text)
        return [alert], Memory({**state, "told": True}, limits.memory)
    last = max(state.get("last", 0.0), news[-1].at)
    beats = [event.heartbeat for event in news if event.heartbeat > 0]
    beat = beats[-1] if beats else state.get("beat", 0.0)
    ended = state.get("ended", False) or any(event.state in {"exit", "dead"} for event in news)
    fresh = last > state.get("last", 0.0)
    told = state.get("told", False) and not fresh
    seconds = limits.memory if ended or told or not beat else limits.silence * beat + limits.lag
    return [], Memory({"last": last, "beat": beat, "ended": ended, "told": told}, seconds)


_WATCHES: dict[str, _Watch] = {
    "start": _start,
    "queue": _queue,
    "leash": _leash,
    "process": _process,
}
