"""The cells of the matrix, and that the documentation shows what was found in them."""

from __future__ import annotations

from itertools import chain

from tests.matrix.cell import BROKERS, CELERYS, POOLS, QUEUES, Cell, cells
from tests.matrix.cover import cover, pairs
from tests.matrix.page import kept
from tests.matrix.things import THINGS


def test_any_two_values_that_may_meet_do() -> None:
    every = list(cells())
    chosen = cover(every)
    assert set(chosen) <= set(every)
    met = set(chain.from_iterable(map(pairs, chosen)))
    assert met == set(chain.from_iterable(map(pairs, every)))
    assert len(chosen) <= len(every) / 3


def test_what_does_not_go_together_is_in_no_cell() -> None:
    every = set(cells())
    assert {cell.pool for cell in every if cell.broker == "SQS"} == {"prefork", "threads", "solo"}
    assert {cell.queue for cell in every if cell.broker.startswith("RabbitMQ")} == set(QUEUES)
    assert {cell.queue for cell in every if not cell.broker.startswith("RabbitMQ")} == {""}
    values = [set(column) for column in zip(*every, strict=True)]
    assert values == [set(BROKERS), {*QUEUES, ""}, set(POOLS), set(CELERYS)]


def test_the_documentation_has_today_s_cells_and_no_failure() -> None:
    """Its tables are made of the same file: see `tests/test_docs.py`."""
    shown = kept()["cells"]
    assert [Cell(*(cell[field] for field in Cell._fields)) for cell in shown] == cover(cells())
    assert {tuple(cell["things"]) for cell in shown} == {tuple(THINGS)}
    assert "failed" not in {
        result["outcome"] for cell in shown for result in cell["things"].values()
    }


def test_the_same_cells_each_time() -> None:
    assert cover(cells()) == cover(list(cells()))
    assert cover([]) == []
    assert str(Cell("Redis", "", "solo", "5.7")) == "Redis/solo/5.7"


def test_a_cover_of_all_triples_of_bits() -> None:
    """Four of eight would do; choosing one after the other finds two more."""
    bits = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    assert len(cover(bits)) <= 6
