"""The demo's arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.run import TOLERANCE, Shares, timeline
from celery_fair.cli.demo.shares.workload import LEAST_MESSAGES, QUANTA, ROUND, TARGETS, Workload
from celery_fair.cli.demo.trace import TraceReader, TraceWriter
from tests.demo.demonstration import fair_result

EXACT = tuple(quantum // 4 for quantum in QUANTA)


def times(factor: int, counts: tuple[int, ...] = EXACT) -> tuple[int, ...]:
    return tuple(factor * count for count in counts)


def test_exact_shares_are_fair() -> None:
    shares = Shares(times(100))
    assert shares.achieved == pytest.approx(TARGETS)
    assert (shares.ratio, shares.jain, shares.fair) == (10, pytest.approx(1), True)
    assert shares.max_error == pytest.approx(0)


def test_published_figures_are_the_sources() -> None:
    first, second = TABLES[100].shares, TABLES[1].shares
    assert first.ratio == pytest.approx(9.69, abs=0.005)
    assert second.ratio == pytest.approx(1.03, abs=0.005)
    assert first.jain == pytest.approx(0.9999, abs=0.00005)
    assert second.jain == pytest.approx(0.56, abs=0.005)
    assert not second.fair


def test_scale_does_not_matter() -> None:
    once, often = Shares(TABLES[100].counts), Shares(times(7, TABLES[100].counts))
    assert once.errors == pytest.approx(often.errors)


@pytest.mark.parametrize("queue", range(len(QUANTA)))
def test_a_queue_beyond_the_tolerance_is_unfair(queue: int) -> None:
    counts = list(times(1000))
    counts[queue] = round(counts[queue] * (1 + 2 * TOLERANCE))
    assert not Shares(tuple(counts)).fair


def test_a_short_run_may_be_off_by_a_round_and_no_more() -> None:
    counts = list(times(10))
    counts[0] -= 1
    assert Shares(tuple(counts)).fair
    counts[0] -= 1
    assert not Shares(tuple(counts)).fair


def test_nothing_consumed_is_not_fair() -> None:
    shares = Shares((0,) * len(QUANTA))
    assert (shares.fair, shares.ratio, shares.jain) == (False, None, 0)


def test_every_queue_is_backlogged_at_the_stop() -> None:
    for messages in (LEAST_MESSAGES, 1500, 40_000):
        workload = Workload.of(messages, 1, None)
        assert max(TARGETS) * workload.stop < messages
        assert workload.stop - workload.warm_up >= 3 * ROUND


def test_timeline_is_cut_at_whole_rounds() -> None:
    starts = fair_result(rounds=60).starts
    parts = timeline(starts, 25)
    assert {shares.total % ROUND for _, shares in parts} == {0}
    assert all(shares.max_error == pytest.approx(0) for _, shares in parts)
    ends = [when for when, _ in parts]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(starts[-1][1])
    assert len(timeline(starts[: ROUND + 3], 25)) == 1


def test_trace_hands_on_whole_records_only(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    reader = TraceReader(path)
    assert reader.read() == []
    writer = TraceWriter(path)
    writer.write(3)
    writer.write(300_000)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert [queue for queue, _ in reader.read()] == [3]
    path.write_bytes(whole)
    assert [queue for queue, _ in reader.read()] == [300_000]
    assert reader.read() == []
