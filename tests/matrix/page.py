"""What was found, as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parents[2] / "docs" / "matrix.json"
SIGNS = {"passed": "✓", "failed": "failed", "not run": "not run"}


def outcomes(results: Mapping[str, Mapping[str, str]]) -> str:
    """In one line; the reason, where it is the same for all."""
    reasons = {result["said"] for result in results.values() if result["outcome"] == "not run"}
    if len(reasons) == 1:
        return f"not run: {reasons.pop()}"
    return ", ".join(f"{name} {result['outcome']}" for name, result in results.items())


def rows(found: Mapping[str, Any]) -> Iterator[list[str]]:
    """A line for each cell; the first has the headings."""
    yield ["broker", "queue", "pool", "Celery", *found["cells"][0]["things"]]
    for cell in found["cells"]:
        named = [cell[field] or "–" for field in ("broker", "queue", "pool", "celery")]
        yield [*named, *(_shown(result) for result in cell["things"].values())]


def _shown(result: Mapping[str, str]) -> str:
    sign = SIGNS[result["outcome"]]
    return f"{sign} {result['said']}".strip() if result["outcome"] == "passed" else sign


def versions(found: Mapping[str, Any]) -> Iterator[list[str]]:
    """What took part, and what did not."""
    yield ["", "version"]
    known = found["versions"]
    missing = {
        cell["broker"]: result["said"]
        for cell in found["cells"]
        for result in cell["things"].values()
        if result["outcome"] == "not run"
    }
    for broker in dict.fromkeys(cell["broker"] for cell in found["cells"]):
        reason = f"not run: {missing[broker]}" if broker in missing else ""
        yield [broker, reason or known["brokers"][broker]]
    yield ["Celery", ", ".join(known["Celery"].values())]
    yield ["Python", known["Python"]]
    yield ["tried on", found["made"]]


def kept() -> dict[str, Any]:
    """What the documentation shows."""
    found: dict[str, Any] = json.loads(KEPT.read_text())
    return found
