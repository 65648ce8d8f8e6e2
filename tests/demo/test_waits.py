"""The arithmetic of the waits, and what is made of them."""

from __future__ import annotations

import re

import pytest

from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.screen import PlainScreen
from celery_fair.cli.demo.waits import words
from celery_fair.cli.demo.waits.page import page
from celery_fair.cli.demo.waits.scenario import NEWSLETTER_TAKES, Scenario
from celery_fair.cli.demo.waits.waits import Run
from celery_fair.cli.demo.worker import Setup
from tests.demo.demonstration import CELERY, waiting

SETUP = Setup(Broker("memory://"), "threads", 2)
LONG = [0.5 + 0.01 * number for number in range(21)]
SHORT = [0.001 * number for number in range(21)]


def both() -> list[Run]:
    return [waiting(LONG, CELERY), waiting(SHORT)]


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
    assert run.scenario.is_mail(last[0])
    started = [record for record in run.started if record != last]
    assert not Run(CELERY, run.scenario, run.published, started).complete


@pytest.mark.parametrize("slots", [1, 2, 16])
@pytest.mark.parametrize("seconds", [1, 3, 60])
def test_newsletters_last_to_the_end(seconds: float, slots: int) -> None:
    scenario = Scenario(seconds, slots)
    moments = scenario.moments
    assert moments == sorted(moments)
    assert 0.2 < moments[0] <= moments[-1] < seconds + 0.15
    assert scenario.newsletters >= 2 * slots * moments[-1] / NEWSLETTER_TAKES
    assert [scenario.is_mail(scenario.newsletters - 1 + n) for n in (0, 1)] == [False, True]


def test_one_sentence_tells_both_medians_and_quantiles() -> None:
    sentence = words.sentence(both())
    assert re.findall(r"[\d.]+ s", sentence) == ["0.60 s", "0.69 s", "0.01 s", "0.02 s"]
    assert sentence.index(CELERY) < sentence.index("a fair worker")
    assert sentence.count(".") == 5  # one of a sentence, the others of numbers


def test_bars_compare_medians() -> None:
    bars = [row[-1].count("█") for row in words.comparison(both())[1:]]
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
    assert said in words.reason(Setup(Broker(url), pool, 2))


def test_page_has_both_runs_on_the_same_axes() -> None:
    text = page(SETUP, both(), good=True)
    above, below = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for plot in (above, below):
        assert plot.count('class="mail"') == len(LONG)
        assert plot.count('class="bulk"') > 1
    axis = r'(class="grid".*?/>|<text.*?</text>)'
    assert re.findall(axis, above) == re.findall(axis, below)
    tops = [[float(y) for y in re.findall(r'cy="([\d.]+)"', plot)] for plot in (above, below)]
    assert max(tops[0]) < min(tops[1])  # a longer wait is drawn higher
    assert words.sentence(both()) in text.replace("&#x27;", "'")
    assert 'class="verdict good"' in text


def test_no_mail_yet() -> None:
    run = Run(CELERY, Scenario(1, 2), [(0, 0.0)], [])
    assert words.figures(run)[1] == ["password mail", "0", "0", "–", "–", "–"]
    lines: list[str] = []
    PlainScreen(lines.append).table(words.figures(run))
    assert len(lines) == 3
    assert "0 published, 0 started; newsletters: 0 started" in words.line(run)
