"""What is left of a world's records, in files, and what of these can be read."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.worlds.world import Process, Record, World

__all__ = ["ROTATE", "T0", "File", "Folder"]

T0 = 1_700_000_000.0
ROTATE = 60.0


@dataclass(eq=False)
class File:
    """One of a process's.

    Attributes:
        is_open: being written: not read by a run that leaves those out.
        late: comes after the first run.
        missing: never comes.
    """

    process: Process
    number: int
    since: float
    records: list[Record] = field(default_factory=list)
    told_dead: bool = False
    is_open: bool = False
    late: bool = False
    missing: bool = False
    text: bytes = b""
    name: str = ""

    def is_there(self, late_ones: bool) -> bool:
        return not self.missing and (late_ones or not self.late)


class Folder:
    """All files of a world.

    Attributes:
        reads_open: whether files that are being written are read, too.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._draw = random.Random(f"{world.name}:{world.draw.random()}")
        self.reads_open = self._draw.random() < 0.5
        self.files: list[File] = []
        self.copies: list[tuple[str, bytes]] = []
        for process in world.processes:
            if process.logs:
                self.files += self._files_of(process)
        self._take_away()
        self._copy()

    def lines(self, late_ones: bool) -> list[tuple[str, bytes]]:
        """Name of the file and line, of all that can be read."""
        found = []
        for file in self.files:
            if file.is_there(late_ones) and (not file.is_open or self.reads_open):
                found += [(file.name, line) for line in file.text.split(b"\n") if line]
        for name, text in self.copies:
            found += [(name, line) for line in text.split(b"\n") if line]
        return found

    def unread(self, late_ones: bool) -> list[tuple[int, str, float | None]]:
        """Process id, boot and birth of those of which there are files, none of which is read."""
        there = [file for file in self.files if file.is_there(late_ones)]
        read = {f.process for f in there if self.reads_open or not f.is_open}
        found = {}
        for file in there:
            if file.process not in read:
                born = file.since if file.number == 0 else None
                found.setdefault(file.process.boot, (file.process.pid, file.process.boot, born))
        return list(found.values())

    def read(self, late_ones: bool) -> set[Record]:
        """The records that are in files which are read, as what they were."""
        found = set()
        for file in self.files:
            if file.is_there(late_ones) and (not file.is_open or self.reads_open):
                found.update(record for record in file.records if not record.lost)
        return found

    def told_dead(self, process: Process, late_ones: bool) -> bool:
        """Whether it is known that a process has died, and that nothing of its log is lost."""
        return process.how == "killed" and any(
            file.told_dead and file.is_there(late_ones)
            for file in self.files
            if file.process is process
        )

    def _files_of(self, process: Process) -> list[File]:
        """As a process rotates: with a record it makes a file, and seals the one before."""
        files: list[File] = []
        skew, failed = process.host.skew, 0
        for record in process.records:
            if not files or record.at >= files[-1].since - T0 - skew + ROTATE:
                if process.host.is_full(record.at):
                    failed = 1  # none can be made; its number is spent
                    continue
                files.append(File(process, len(files) + failed, T0 + record.at + skew))
            files[-1].records.append(record)
        for file in files:
            file.text = b"".join(_text(process, r, self._draw) for r in file.records)
            since = int(file.since)
            name = f"{since}-{process.node}-{process.pid}-{process.boot}-{file.number}.jsonl"
            file.name = f"/logs/{process.host.name}/{name}"
        if files and process.ended is None:
            files[-1].is_open = True
        if files and process.dead_at is not None:
            self._declare_dead(process, files, process.dead_at)
        elif files and process.how in {"killed", "power"}:
            files[-1].is_open = True
        return [file for file in files if file.text or file.is_open]

    def _declare_dead(self, process: Process, files: list[File], at: float) -> None:
        found = [r.seq for file in files for r in file.records if not r.lost]
        if not found:
            return
        last = files[-1]
        torn = bool(last.text) and not last.text.endswith(b"\n")
        behind = process.records[-1].lost  # it died while it could not write
        record: dict[str, Any] = {"v": 1, "node": process.node, "pid": process.pid}
        record |= {"boot": process.boot, "kind": "process", "state": "dead", "last": max(found)}
        record["at"] = _micros(T0 + at + process.host.skew)
        if process.how == "power" or torn or behind:
            record["dropped"] = 1
        last.text += b"\n" * torn + json.dumps(record).encode() + b"\n"
        last.told_dead = True

    def _take_away(self) -> None:
        """Files are late, or gone; a process's log is never gone as a whole."""
        if not self.world.wild:
            return
        by_process: dict[Process, list[File]] = {}
        for file in self.files:
            by_process.setdefault(file.process, []).append(file)
        for files in by_process.values():
            spared = self._draw.choice(files)
            for file in files:
                if file is not spared and self._draw.random() < 0.03:
                    file.late = self._draw.random() < 0.6
                    file.missing = not file.late

    def _copy(self) -> None:
        """Files, or lines of them, are there twice; a copy may have been broken off."""
        for file in self.files:
            if file.missing or file.late or file.is_open or self._draw.random() > 0.1:
                continue
            text = file.text
            if self.world.wild and self._draw.random() < 0.3:
                text = text[: self._draw.randrange(len(text) + 1)]
            kind = self._draw.choice(["name", "elsewhere", "lines"])
            if kind == "lines":
                file.text += file.text[: file.text.find(b"\n") + 1] if b"\n" in file.text else b""
            elif kind == "name":
                self.copies.append((file.name.replace("/logs/", "/logs/copy/"), text))
            else:
                self.copies.append((f"/logs/{self.world.name}-{len(self.copies)}.jsonl", text))


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


def _text(process: Process, record: Record, draw: random.Random) -> bytes:
    """What the file has of a record."""
    if record.lost and not record.torn:
        return b""
    fields = dict(record.fields)
    for name in ("heartbeat", "runtime"):
        if name in fields:
            fields[name] = _micros(fields[name])
    if fields.get("published") is not None:
        fields["published"] = _micros(T0 + fields["published"])
    head = {"v": 1, "node": process.node, "pid": process.pid, "boot": process.boot}
    head |= {"kind": record.kind, "seq": record.seq}
    head["at"] = _micros(T0 + record.at + process.host.skew)
    text = json.dumps(head | fields).encode()
    if not record.torn:
        return text + b"\n"
    part = text[: draw.randrange(len(text))]
    if process.how == "power" and process.records[-1].at - record.at < 40:
        return part if draw.random() < 0.8 else b"\0" * len(part)
    return part + b"\n"  # a full disk: the next begins a line
