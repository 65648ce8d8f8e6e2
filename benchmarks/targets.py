"""How often advice meets its target on a part of a trace that it was not made from.

    python -m benchmarks.advice [--data FOLDER] [--jobs N] [--json]

Real traces: requests to two services of language models (Azure Public Dataset), in `../shared/data`
beside the checkout unless another folder is named. Each is replayed with as many slots as make it
busy to some degree. It is cut into six blocks of one length; advice is made on the blocks so far,
for targets from easy to hard, and checked on the next one. A case is *feasible* if anything that
was tried, with the slots that there are, or what was advised, meets the target on that block.
Target: met in 90 % of feasible cases. *Without margin* is what the quantile itself would have
advised.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from celery_fair.pipeline.replay.advice import Goal, advise, tried

from celery_fair.pipeline.replay.line import Message
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.outcome import COLUMNS, outcomes
from celery_fair.pipeline.replay.scenario import Plan, Scenario

DATA = Path(__file__).parents[2] / "shared" / "data"
SERVICES = ("code", "conv")
READ, WRITTEN = 0.0002, 0.03
BUSY = (0.6, 0.75, 0.9)
BLOCKS = 6
EASE = (0.2, 0.4, 0.6, 0.8)
"""Where targets lie between what the best class and what equal quanta give, on a log scale."""
PERCENTS = (50, 95)
TARGET = 0.9


@dataclass
class Counted:
    """What came of one trace."""

    cases: int = 0
    feasible: int = 0
    met: int = 0
    met_without_margin: int = 0

    def add(self, other: "Counted") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def requests(folder: Path) -> dict[str, list[Message]]:
    """Traces by name: each service with its long requests apart, and both services together."""
    both = {service: list(_requests(folder, service)) for service in SERVICES}
    made = {f"{service}, short and long": _by_length(each) for service, each in both.items()}
    made["code and conv"] = sorted(message for each in both.values() for message in each)
    return made


def _requests(folder: Path, service: str) -> Iterator[Message]:
    with (folder / f"AzureLLMInferenceTrace_{service}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            read, written = int(row["ContextTokens"]), int(row["GeneratedTokens"])
            at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
            size = f"2^{math.ceil(math.log2(max(read, 1)))}"
            yield Message(at, service, "inference", size, read * READ + written * WRITTEN)


def _by_length(messages: list[Message]) -> list[Message]:
    usual = sorted(message.runtime for message in messages)[len(messages) // 2]
    return [
        message._replace(queue="long" if message.runtime > usual else "short")
        for message in messages
    ]


class Replays:
    """Of one part of a trace: each scenario once, however often it is asked for."""

    def __init__(self, trace: list[Message]) -> None:
        self._trace = trace
        self._known: dict[str, dict[tuple[str, str], Any]] = {}

    def __call__(self, scenarios: list[Scenario]) -> dict[tuple[str, str], Any]:
        return {key: row for each in scenarios for key, row in self._of(each).items()}

    def _of(self, scenario: Scenario) -> dict[tuple[str, str], Any]:
        found = self._known.get(scenario.name)
        if found is None:
            made = outcomes(Machine(scenario).run(self._trace))
            found = self._known[scenario.name] = {
                (scenario.name, queue): dict(
                    zip(COLUMNS, outcome.row(scenario.name, queue), strict=True)
                )
                for (queue, _), outcome in made.items()
            }
        return found


def blocks(trace: list[Message]) -> list[list[Message]]:
    begin, end = trace[0].published, trace[-1].published
    made: list[list[Message]] = [[] for _ in range(BLOCKS)]
    for message in trace:
        made[min(BLOCKS - 1, int((message.published - begin) / (end - begin) * BLOCKS))].append(
            message
        )
    return made


def measure(trace: list[Message], busy: float) -> Counted:
    """Advise on what has been so far, and check on what comes next."""
    seconds = sum(message.runtime for message in trace)
    slots = math.ceil(seconds / (trace[-1].published - trace[0].published) / busy)
    queues = sorted({message.queue for message in trace})
    base = Scenario("base", concurrency=slots, queues={queue: Plan() for queue in queues})
    parts, counted = blocks(trace), Counted()
    for number in range(1, BLOCKS):
        so_far = [message for part in parts[:number] for message in part]
        for queue in queues:  # the names of scenarios do not say which queue they favour
            before, after = Replays(so_far), Replays(parts[number])
            for goal in goals(before, base, queue):
                counted.add(_case(base, goal, before, after))
    return counted


def goals(so_far: Replays, base: Scenario, queue: str) -> Iterator[Goal]:
    best = tried(base, [Goal(queue, 50, 0.0)])[-1]
    found = so_far([base, best])
    for percent in PERCENTS:
        column = f"p{percent}"
        worst, least = (max(0.05, found[each.name, queue][column]) for each in (base, best))
        for ease in EASE:
            yield Goal(queue, percent, least * (worst / least) ** ease)


def _case(base: Scenario, goal: Goal, so_far: Replays, after: Replays) -> Counted:
    def met(scenario: Scenario) -> bool:
        return goal.met(scenario.name, after([scenario]))

    good, plain = (
        advised.means is not None and met(advised.scenario)
        for advised in (advise(base, [goal], so_far, margin) for margin in (True, False))
    )
    feasible = good or plain or any(map(met, tried(base, [goal])))
    return Counted(1, int(feasible), int(good), int(plain))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"there are no traces in {arguments.data}: name their folder with --data")
    traces = requests(arguments.data)
    cases = [(name, busy) for name in traces for busy in BUSY]
    rows: list[dict[str, Any]] = []
    total = Counted()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        counts = pool.map(
            measure, *zip(*((traces[name], busy) for name, busy in cases), strict=True)
        )
        for (name, busy), counted in zip(cases, counts, strict=True):
            total.add(counted)
            rows.append({"trace": name, "busy": busy} | vars(counted))
            if not arguments.json:
                print(rows[-1], flush=True)
    rows.append({"trace": "all", "busy": None} | vars(total))
    part = total.met / max(1, total.feasible)
    if arguments.json:
        print(json.dumps({"rows": rows, "met": part, "target": TARGET}, indent=2))
    else:
        print(f"met in {part:.1%} of {total.feasible} feasible cases; target {TARGET:.0%}")


if __name__ == "__main__":
    main()
