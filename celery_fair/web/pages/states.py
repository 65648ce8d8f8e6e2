"""Partitions, what the doctor says, and what was done."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
from starlette.requests import Request
from starlette.responses import Response

from celery_fair.cli.doctor.command import findings
from celery_fair.cli.doctor.findings import LEVELS
from celery_fair.cli.partitions.status import rows_of
from celery_fair.web.actions import NotDoneError
from celery_fair.web.forms import Form
from celery_fair.web.site import Site, redirect

__all__ = ["actions_part", "doctor_page", "partitions_page", "undo"]


def partitions_page(site: Site, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the page of who owns which partition."""
    try:
        return {"rows": rows_of(site.ctx), "trouble": ""}
    except click.ClickException as exc:  # there are none, say
        return {"rows": [], "trouble": exc.message}


def doctor_page(site: Site, _query: Mapping[str, str]) -> dict[str, Any]:
    """Examine the app; return what weakens its promises, the worst first."""
    found = sorted(findings(site.app, site.timeout), key=lambda each: -LEVELS.index(each.level))
    counts = Counter(each.level for each in found)
    return {"found": found, "counts": {level: counts[level] for level in LEVELS}}


def actions_part(site: Site, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the list of actions."""
    return {"actions": site.log.recent()[:200], "path": site.log.path}


def undo(site: Site, request: Request, form: Form) -> Response:
    """Take an action back."""
    claimed = site.log.claim_undo(form.get("id", ""))
    if claimed is None:
        raise NotDoneError(
            "This cannot be taken back: it was already, something else was changed there since, or"
            " the server was started again."
        )
    action, take_back = claimed
    who, about = request.state.visitor.name, action.about
    with site.log.doing(who, f"undo {action.what}", about, {"of": action.id}) as done:
        done(take_back())
    return redirect(request, "actions")
