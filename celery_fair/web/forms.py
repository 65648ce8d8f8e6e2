"""What a browser sends to change something, if it is from a page of this server.

A browser says with each form where it is from (Sec-Fetch-Site, Origin), which no page can have it
say otherwise. One from elsewhere is refused, and one of which nothing is said.
"""

from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

Form = ImmutableMultiDict[str, str]
"""A form's fields."""

_FIELDS = 20_000
"""Fields of a form, at the most: some thousands of dead letters can be chosen one by one."""


def changing(
    handle: Callable[[Request, Form], Response],
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler of forms: `handle`, in a thread, for who may, and a form of this server.

    Whoever may not gets 403, and `handle` is not called.
    """

    async def handler(request: Request) -> Response:
        if not request.state.visitor.may_change:
            raise HTTPException(403, "You may look, and change nothing.")
        if not _is_from_here(request):
            text = "This form is from another site, or your browser does not say where it is from."
            raise HTTPException(403, text)
        data = await request.form(max_files=0, max_fields=_FIELDS)
        form = Form([(name, text) for name, text in data.multi_items() if isinstance(text, str)])
        return await run_in_threadpool(handle, request, form)

    return handler


def _is_from_here(request: Request) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in {"same-origin", "none", None}:
        return False
    if origin is None:
        return site is not None
    return origin.lower().endswith(f"://{request.headers.get('host', '?').lower()}")
