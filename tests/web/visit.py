"""The application as a browser sees it, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from celery import Celery

from celery_fair import install
from celery_fair.operate.answers import Answers
from celery_fair.web.actions import ActionLog
from celery_fair.web.asgi import application
from celery_fair.web.collector import Collector
from celery_fair.web.guard import Visitors
from celery_fair.web.orders import Orders
from celery_fair.web.site import Site
from tests.web.answered import KnownDepths, answers

HOSTS = {"fair.test"}


def site_of(
    workers: Mapping[str, Any] | Answers,
    *,
    conf: Mapping[str, Any] | None = None,
    broker: str = "memory://",
    depths: KnownDepths | None = None,
) -> Site:
    """A site whose workers have answered once."""
    app = Celery("shop", broker=broker, set_as_current=False)
    app.conf.update(conf or {})
    install(app)
    said = workers if isinstance(workers, Answers) else answers(workers)
    collector = Collector(lambda: said, depths or KnownDepths())
    collector.take()
    log = ActionLog()
    return Site(app, collector, log, Orders(app, log), timeout=0.2)


class Visit:
    """Requests of one browser.

    Arguments:
        headers: sent with each.
    """

    def __init__(
        self,
        site: Site,
        visitors: Visitors | None = None,
        *,
        changes: bool = True,
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        root_path: str = "",
    ) -> None:
        self.site = site
        self.app = application(site, visitors or Visitors(changes), HOSTS)
        self._headers = dict(headers or {})
        self._transport = httpx.ASGITransport(
            self.app, client=(address, 12345), root_path=root_path
        )

    def request(
        self,
        method: str,
        path: str,
        data: Mapping[str, str | Sequence[str]] | None = None,
        **headers: str,
    ) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}

        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url="http://fair.test"
            ) as client:
                return await client.request(method, path, data=data, headers=self._headers | given)

        return asyncio.run(asked())

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.request("GET", path, **headers)

    def post(self, path: str, data: Mapping[str, Any], **headers: str) -> httpx.Response:
        """Send a form, as from a page of the site."""
        return self.request("POST", path, data, **{"sec_fetch_site": "same-origin", **headers})
