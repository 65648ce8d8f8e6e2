"""Changes of queues and keys: shown first, then made."""

from collections.abc import Callable

from celery.exceptions import ImproperlyConfigured
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from celery_fair.operate.errors import OperateError
from celery_fair.web.change import Change
from celery_fair.web.forms import Form
from celery_fair.web.site import Site, message_of

__all__ = ["change"]


def change(
    site: Site, request: Request, form: Form, kind: Callable[[Site, Form], Change]
) -> Response:
    """Show what a change will do; or, if that has been seen, make it."""
    try:
        wanted = kind(site, form)
        if form.text("step") != "do":
            return site.page(request, "change.html", change=wanted, prospect=wanted.prospect())
        return _make(site, request, wanted)
    except (OperateError, ImproperlyConfigured) as exc:
        raise HTTPException(409, str(exc)) from None


def _make(site: Site, request: Request, wanted: Change) -> Response:
    who = request.state.visitor.name
    try:
        action = site.log.begin(who, wanted.what, wanted.about, dict(wanted.fields))
    except OSError as exc:
        raise HTTPException(500, f"The log of actions cannot be written: {exc}") from None
    try:
        result, undo = wanted.do()
    except Exception as exc:
        site.log.end(action, {"all": f"error: {message_of(exc)}"})
        raise
    site.log.end(action, result, undo)
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/actions", 303)
