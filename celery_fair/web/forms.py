"""What a browser sends to change something, if it is from a page of this server.

A page has a token in each of its forms that another site cannot know: a digest of the visitor's
name under a key of this process. Besides, a browser says where a request is from (Sec-Fetch-Site,
Origin), and one from elsewhere is refused whatever it knows.
"""

import hmac
from collections.abc import Awaitable, Callable
from hashlib import sha256
from secrets import token_bytes
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from celery_fair.web.guard import Visitor

Form = ImmutableMultiDict[str, str]
"""A form's fields."""

_FIELDS = 20_000
"""Fields of a form, at the most: some thousands of dead letters can be chosen one by one."""


class Tokens:
    """Makes and verifies tokens; those of another process, or an earlier one, are worth nothing."""

    def __init__(self) -> None:
        self._key = token_bytes(32)

    def of(self, visitor: Visitor) -> str:
        """Return the token of somebody's forms."""
        return hmac.new(self._key, visitor.name.encode(), sha256).hexdigest()

    def fits(self, visitor: Visitor, token: str) -> bool:
        """Whether it is theirs."""
        return hmac.compare_digest(self.of(visitor).encode(), token.encode())


def changing(
    tokens: Tokens, handle: Callable[[Request, Form], Response]
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler of forms: `handle`, in a thread, for who may, and a form of this server.

    Whoever may not gets 403, and `handle` is not called.
    """

    async def handler(request: Request) -> Response:
        visitor: Visitor = request.state.visitor
        if not visitor.may_change:
            raise HTTPException(403, "You may look, and change nothing.")
        if not _is_from_here(request):
            raise HTTPException(403, "This form is from another site.")
        data = await request.form(max_files=0, max_fields=_FIELDS)
        form = Form([(name, text) for name, text in data.multi_items() if isinstance(text, str)])
        if not tokens.fits(visitor, form.get("token", "")):
            raise HTTPException(
                403,
                "This form is not from a page of this server as it runs now: go back, load the page"
                " again, and fill it in anew.",
            )
        return await run_in_threadpool(handle, request, form)

    return handler


def _is_from_here(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
