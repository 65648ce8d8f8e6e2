"""The arithmetic of the waits, and what is made of them."""

from __future__ import annotations

import re

import pytest

from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.demonstration import page
from celery_fair.cli.demo.waits.demonstration import WaitsDemonstration
from celery_fair.cli.demo.waits.run import Run
from celery_fair.cli.demo.waits.scenario import NEWSLETTER_TAKES, Scenario
from celery_fair.cli.demo.worker import Setup
from celery_fair.cli.screen import PlainScreen, Table
from tests.demo.demonstration import CELERY, waiting

SHOWN = WaitsDemonstration(Setup(Broker("memory://"), "threads", 2), 3)
LONG = [0.5 + 0.01 * number for number in range(21)]
SHORT = [0.001 * number for number in range(21)]


def both() -> list[Run]:
    return [waiting(LONG, fair=False), waiting(SHORT)]


def test_a_wait_is_from_publishing_to_the_start() -> None:
    run = waiting(LONG)
    assert run.mails.seconds == pytest.approx(LONG)
    assert run.mails.median == pytest.approx(0.6)
    assert run.mails.most == pytest.approx(0.69)  # the last but one of twenty-one
    assert run.newsletters.seconds == pytest.approx([0.1 * number for number in range(10)])
    assert run.complete


def test_a_run_is_complete_when_all_mails_have_started() -> None:
    run = waiting(LONG)
    last = max(run.started)
    assert run.work.is_mail(last[0])
    started = [record for record in run.started if record != last]
    assert not Run(run.work, False, run.published, started).complete


@pytest.mark.parametrize("slots", [1, 2, 16])
@pytest.mark.parametrize("seconds", [1, 3, 60])
def test_newsletters_last_to_the_end(seconds: float, slots: int) -> None:
    scenario = Scenario(seconds, slots)
    times = scenario.times
    assert times == sorted(times)
    assert 0.2 < times[0] <= times[-1] < seconds + 0.15
    assert scenario.newsletters >= 2 * slots * times[-1] / NEWSLETTER_TAKES
    assert [scenario.is_mail(scenario.newsletters - 1 + n) for n in (0, 1)] == [False, True]


def test_one_sentence_tells_both_medians_and_quantiles() -> None:
    ((good, sentence),) = SHOWN.verdicts(both())
    assert good
    assert re.findall(r"[\d.]+ s", sentence) == ["0.60 s", "0.69 s", "0.01 s", "0.02 s"]
    assert sentence.index(CELERY) < sentence.index("a fair worker")
    assert sentence.count(".") == 5  # one of a sentence, the others of numbers


def test_bars_compare_medians() -> None:
    bars = [row[-1].count("█") for row in SHOWN.summary(both(), bars=True)[1:]]
    assert bars == [16, 1]


@pytest.mark.parametrize(
    ("url", "pool", "said"),
    [
        ("memory://", "threads", "newsletters before a mail arrives"),
        ("memory://", "prefork", "may fetch less ahead"),
        ("amqp://host", "prefork", "newsletters before a mail arrives"),
    ],
)
def test_reason_suits_broker_and_pool(url: str, pool: str, said: str) -> None:
    assert said in WaitsDemonstration(Setup(Broker(url), pool, 2), 3).note


def test_page_has_both_runs_on_the_same_axes() -> None:
    text = page(SHOWN, both())
    above, below = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for plot in (above, below):
        assert plot.count('class="mail"') == len(LONG)
        assert plot.count('class="bulk"') > 1
    axis = r'(class="grid".*?/>|<text.*?</text>)'
    assert re.findall(axis, above) == re.findall(axis, below)
    tops = [[float(y) for y in re.findall(r'cy="([\d.]+)"', plot)] for plot in (above, below)]
    assert max(tops[0]) < min(tops[1])  # a longer wait is drawn higher
    assert SHOWN.verdicts(both())[0][1] in text.replace("&#x27;", "'")
    assert 'class="verdict good"' in text


def test_no_mail_yet() -> None:
    run = Run(Scenario(1, 2), False, [(0, 0.0)], [])
    (rows,) = SHOWN.tables(run)
    assert rows[1] == ["password mail", "0", "0", "–", "–", "–"]
    lines: list[str] = []
    PlainScreen(lambda line, _: lines.append(line)).show(Table(rows))
    assert len(lines) == 3
    assert "0 published, 0 started; newsletters: 0 started" in SHOWN.progress(run).line
