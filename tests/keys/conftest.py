"""Queues that are shared by key are Redis's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from celery_fair import install
from celery_fair.cli import fair
from tests.brokers import Space
from tests.integration.conftest import gate
from tests.keys.tenants import KEYED, Tenants
from tests.once.conftest import dead_letters

__all__ = ["dead_letters", "gate"]


@pytest.fixture
def space(redis_space: Space) -> Space:
    return redis_space


Run = Callable[..., Result]


@pytest.fixture
def run(space: Space) -> Iterator[Run]:
    with Celery("shop", broker=space.url, set_as_current=False) as app:
        app.conf.update(KEYED)
        install(app)
        context = CLIContext(app=app, no_color=True, workdir=None)
        yield lambda *words: CliRunner().invoke(fair, words, obj=context)


@pytest.fixture
def tenants(space: Space) -> Tenants:
    return Tenants(space.url)
