"""What is leaned on inside other libraries: that it is looked for, and what follows without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import ImproperlyConfigured

import celery_fair
from celery_fair.worker import seams
from celery_fair.worker.seams import FAST, NEEDED, Seam, missing, require, untested
from tests.brokers import Space
from tests.publishing import publish
from tests.workers import StartWorker

PACKAGE = Path(celery_fair.__file__).parent


def places() -> Iterator[tuple[str, str]]:
    for seam in (*NEEDED, *FAST):
        yield from ((seam.place, name) for name in seam.has)


def test_all_is_there() -> None:
    assert list(missing(NEEDED)) == []
    assert list(missing(FAST)) == []
    assert untested() is None
    require()


@pytest.mark.parametrize("seam", [*NEEDED, *FAST], ids=lambda seam: seam.place)
def test_each_is_looked_for(seam: Seam, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a release takes away, or calls otherwise, has its name in what is said."""
    module, _, name = seam.place.partition(":")
    if name:
        with monkeypatch.context() as changed:
            changed.delattr(import_module(module), name)
            assert list(missing([seam])) == [seam.place]
    found: Any = getattr(import_module(module), name) if name else import_module(module)
    for each in seam.has:
        renamed = seam._replace(has=(f"{each}_renamed",))
        assert list(missing([renamed])) == [f"{seam.place}{'.' if name else ':'}{each}_renamed"]
        if hasattr(found, each) and each in vars(found) and not isinstance(found, type):
            with monkeypatch.context() as changed:
                changed.delattr(found, each)
                assert len(list(missing([seam]))) == 1
    for each in seam.takes:
        renamed = seam._replace(takes=(f"{each}_renamed",))
        assert list(missing([renamed])) == [f"{seam.place}({each}_renamed)"]


def test_a_module_that_is_gone() -> None:
    assert list(missing([Seam("celery.no_such_module")])) == ["celery.no_such_module"]


def test_a_worker_that_cannot_work_says_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seams, "NEEDED", (Seam("celery.worker.loops:gone"),))
    with pytest.raises(ImproperlyConfigured, match=r"celery\.worker\.loops:gone is not there"):
        require()


def test_no_private_name_is_used_that_is_not_looked_for() -> None:
    """A name with an underscore that is not ours is another library's, or on the list below."""
    listed = {name for _, name in places()}
    listed |= {seam.place.partition(":")[2] for seam in (*NEEDED, *FAST)}
    used = {
        (name, str(path.relative_to(PACKAGE)))
        for path in (PACKAGE / "worker").rglob("*.py")
        for name in _foreign(ast.parse(path.read_text()))
    }
    assert {(name, path) for name, path in used if name not in listed | GUARDED.keys()} == set()
    assert GUARDED.keys() <= {name for name, _ in used}


GUARDED = {
    "_flush_events": "before Celery 5.7 only",
    "_group_buffer": "before Celery 5.7 only",
    "_ready_lock": "before Celery 5.7 only",
    "_messages_to_python": "of SQS, which the matrix tries",
    "_new_queue": "of SQS, which the matrix tries",
    "_work_queue": "the standard library's",
    "_replace": "the standard library's, of named tuples",
    "_parser": "redis-py's, of a connection: without it the worker looks again and again",
}
"""Private names that may be missing, or are no library's of Celery's."""


def _foreign(tree: ast.AST) -> set[str]:
    """Private names of others in a file: attributes that no code of ours defines."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match(r"_[a-z]", node.attr)
        and node.attr not in _ours()
    }


_known: set[str] = set()


def _ours() -> set[str]:
    if not _known:
        for path in PACKAGE.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    _known.add(node.name)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    _known.add(node.target.id)
                elif isinstance(node, ast.Attribute) and _is_own(node):
                    _known.add(node.attr)
    return _known


def _is_own(node: ast.Attribute) -> bool:
    is_assigned = isinstance(node.ctx, ast.Store)
    return is_assigned and isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}


WITHOUT = """
import celery.worker.strategy
from celery.worker import request
from tests.apps.shares import *
del request.create_request_cls
"""


def test_without_the_fast_path_s_everything_goes_the_plain_way(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    worker = start_worker(rabbitmq_space, app=WITHOUT, queues=["a"], loglevel="INFO", quiet=False)
    ids = publish(rabbitmq_space.url, {"a": 20}).all()
    worker.records.started.wait_once(ids)
    assert "has no celery.worker.request:create_request_cls)" in worker.log()
    assert worker.stop() == 0
