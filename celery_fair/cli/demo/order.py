"""What the worker process is told, in a file of a folder that only this user can read."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["FOLDER_VARIABLE", "Order"]

FOLDER_VARIABLE = "FAIR_DEMO_FOLDER"


@dataclass(frozen=True)
class Order:
    """One run, as the worker process sees it.

    Attributes:
        folder: where it is, and where the traces are.
        broker: the broker's URL.
        prefix: begins every name at the broker.
        work: the fields of what is to be published.
        fair: whether the worker is a fair one.
        event_log: the folder of the worker's event log, if it is to write one.
        command: the process of the command, for which the worker works.
    """

    folder: str
    broker: str
    prefix: str
    work: dict[str, Any]
    fair: bool
    event_log: str | None
    command: int

    @property
    def published(self) -> Path:
        """The trace of what was published."""
        return Path(self.folder, "published")

    @property
    def started(self) -> Path:
        """The trace of the tasks' starts."""
        return Path(self.folder, "started")

    @property
    def log(self) -> Path:
        """What the worker process prints."""
        return Path(self.folder, "worker.log")

    def write(self) -> None:
        """Leave the order in its folder."""
        Path(self.folder, "order.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "Order":
        """Take the order that was left in a folder away, as it holds the broker's password."""
        path = folder / "order.json"
        order = cls(**json.loads(path.read_text()))
        path.unlink()
        return order
