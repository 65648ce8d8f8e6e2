"""Partitions, what the doctor says, and what was done."""

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from celery_fair.cli.partitions.status import rows_of
from celery_fair.operate.doctor import findings
from celery_fair.operate.doctor.findings import LEVELS
from celery_fair.operate.errors import OperateError
from celery_fair.web.forms import Form
from celery_fair.web.site import Site, message_of

__all__ = ["actions_part", "doctor_page", "partitions_page", "undo"]


def partitions_page(site: Site, request: Request) -> Response:
    """Show who owns which partition."""
    try:
        rows, trouble = rows_of(site.ctx), ""
    except OperateError as exc:
        rows, trouble = [], str(exc)
    return site.page(request, "partitions.html", rows=rows, trouble=trouble)


def doctor_page(site: Site, request: Request) -> Response:
    """Examine the app, and show what weakens its promises, the worst first."""
    try:
        found, trouble = list(findings(site.app, site.timeout)), ""
    except Exception as exc:  # noqa: BLE001 - of any transport: the page says it
        found, trouble = [], message_of(exc)
    found.sort(key=lambda finding: -LEVELS.index(finding.level))
    counts = {level: sum(each.level == level for each in found) for level in LEVELS}
    return site.page(request, "doctor.html", found=found, counts=counts, trouble=trouble)


def actions_part(site: Site, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return what fills in the list of actions."""
    return {"actions": site.log.recent()[:200], "path": site.log.path}


def undo(site: Site, request: Request, form: Form) -> Response:
    """Take an action back."""
    claimed = site.log.claim_undo(form.text("id"))
    if claimed is None:
        raise HTTPException(
            409,
            "This cannot be taken back: it was already, something else was changed there since, or"
            " the server was started again.",
        )
    action, take_back = claimed
    visitor = request.state.visitor
    try:
        again = site.log.begin(visitor.name, f"undo {action.what}", action.about, {"of": action.id})
    except OSError as exc:
        raise HTTPException(500, f"The log of actions cannot be written: {exc}") from None
    try:
        site.log.end(again, take_back())
    except Exception as exc:
        site.log.end(again, {"all": f"error: {message_of(exc)}"})
        raise HTTPException(503, message_of(exc)) from exc
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/actions", 303)
