"""The log of actions: who changed what, when, and what became of it.

A line of JSON before something is done, and one after, with the same number. What cannot be written
down is not done. Without a file it is kept in memory, and in the program's log, alone.
"""

import json
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from starlette.exceptions import HTTPException

logger = logging.getLogger(__name__)

_SHOWN = 500
"""Actions that are kept in memory, the last ones."""


@dataclass
class Action:
    """Something that was changed, or was to be.

    Attributes:
        who: the visitor's name.
        what: in a few words.
        about: the queue or the key, say.
        details: all that there is to know of it.
        result: what became of it, by worker, or under "all"; empty until it is known.
        back: fields of a form that takes it back, and under "path" where that is sent; none if
            nothing does.
    """

    who: str
    what: str
    about: str
    details: Mapping[str, Any]
    id: str = field(default_factory=lambda: uuid4().hex)
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    result: Mapping[str, str] = field(default_factory=dict)
    back: Mapping[str, str] = field(default_factory=dict)


class ActionLog:
    """Keeps actions, the last one first. From any thread.

    Arguments:
        path: the file; None for none.

    Raises:
        OSError: it cannot be read or written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._actions: deque[Action] = deque(maxlen=_SHOWN)
        if path is not None:
            with path.open("a", encoding="utf-8"):
                pass
            for line in path.read_text("utf-8", errors="replace").splitlines():
                self._recall(line)

    def recent(self) -> list[Action]:
        """Return the actions, the last one first."""
        return list(self._actions)[::-1]

    def begin(self, who: str, what: str, about: str, details: Mapping[str, Any]) -> Action:
        """Write down what is going to be done.

        Raises:
            HTTPException: it cannot be written; then it must not be done.
        """
        action = Action(who, what, about, details)
        told = {"who": who, "what": what, "about": about, "details": details}
        try:
            self._write(action, "begun", told)
        except OSError as exc:
            raise HTTPException(500, f"The log of actions cannot be written: {exc}") from None
        self._actions.append(action)
        return action

    def end(
        self, action: Action, result: Mapping[str, str], back: Mapping[str, str] | None = None
    ) -> None:
        """Write down what became of it; where it cannot be written, it is shown, and logged."""
        action.result, action.back = result, back or {}
        try:
            self._write(action, "ended", {"result": result, "back": action.back})
        except OSError:
            logger.exception(
                "What became of %s is not in the log of actions: %s", action.id, result
            )

    def _write(self, action: Action, event: str, told: Mapping[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": at, "id": action.id, "event": event, **told}, default=str)
        logger.info("%s", line)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def _recall(self, line: str) -> None:
        """Take in a line of the file; one that was torn, or is another program's, says nothing."""
        try:
            told = json.loads(line)
            if told["event"] == "ended":
                for action in self._actions:
                    if action.id == told["id"]:
                        action.result, action.back = dict(told["result"]), dict(told["back"])
                return
            who, what, about, id_ = (str(told[name]) for name in ("who", "what", "about", "id"))
            time, details = datetime.fromisoformat(told["time"]), dict(told["details"])
            result = {"all": "not known"}
            self._actions.append(Action(who, what, about, details, id_, time, result))
        except (KeyError, TypeError, ValueError, AttributeError):
            logger.debug("No action: %r", line)
