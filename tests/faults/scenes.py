"""Scenes by what they must be like, made when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.brokers.space import Server, Space
from tests.faults.accounting import Account
from tests.faults.matrix import Case, execute
from tests.faults.scene import Scene

Key = tuple[str, str, bool]


def _key(case: Case) -> Key:
    return case.label, case.pool, case.mortal


class Scenes:
    """Runs cases, each on a scene that fits it.

    Arguments:
        server: returns the broker for a case.
    """

    def __init__(self, server: Callable[[Case], Server], folder: Path) -> None:
        self._server, self._folder = server, folder
        self._scenes: dict[Key, Scene] = {}
        self._made = 0

    def execute(self, case: Case, seed: int) -> dict[str, Account]:
        """One run; a scene on which something went wrong is not used again."""
        try:
            return execute(case, self.of(case), seed)
        except BaseException:
            self._scenes.pop(_key(case)).end()
            raise

    def of(self, case: Case) -> Scene:
        """The scene for a case."""
        key = _key(case)
        if key not in self._scenes:
            self._scenes[key] = self._make(case)
        return self._scenes[key]

    def _make(self, case: Case) -> Scene:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        space: Space = self._server(case).space()
        options = {"queue_type": case.queue_type, "pool": case.pool, "ledger": case.ledger}
        return Scene(space, folder, **options)

    def end(self) -> None:
        with ExitStack() as stack:
            for scene in self._scenes.values():
                stack.callback(scene.end)
        self._scenes.clear()
