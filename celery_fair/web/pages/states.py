"""Partitions, what the doctor says, and what was done."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from celery_fair.operate import partitions
from celery_fair.operate.doctor import findings
from celery_fair.operate.doctor.findings import LEVELS
from celery_fair.operate.errors import OperateError
from celery_fair.web.site import Site


class StatePages:
    """What fills in pages of what else there is."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def partitions(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in who owns which partition."""
        try:
            return {"rows": partitions.look(self._site.app).rows, "trouble": ""}
        except OperateError as exc:  # there are none, say
            return {"rows": [], "trouble": str(exc)}

    def doctor(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """Examine the app; fill in what weakens its promises, the worst first."""
        found = list(findings(self._site.app, self._site.timeout))
        found.sort(key=lambda each: -LEVELS.index(each.level))
        counts = Counter(each.level for each in found)
        return {"found": found, "counts": {level: counts[level] for level in LEVELS}}

    def actions(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """Fill in the list of actions."""
        actions = self._site.log.recent()
        last = {each.about: each.id for each in reversed(actions)}
        return {"actions": actions[:200], "last": last, "path": self._site.log.path}
