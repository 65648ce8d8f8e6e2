"""The rule of the soak can fail, and does not fail for what comes and goes."""

from __future__ import annotations

import pytest

from tests.soak.figures import ALLOWED, grows

STEADY = [5.0, 7.0, 9.0] + 27 * [12.0]
RESTLESS = [12.0, 19.0, 14.0] * 20


@pytest.mark.parametrize("name", ALLOWED)
def test_what_comes_and_goes_does_not_grow(name: str) -> None:
    assert not grows(name, STEADY)
    assert not grows(name, RESTLESS)
    assert not grows(name, RESTLESS[::-1])


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("cycles", [1, 2, 5, 10])
def test_what_is_lost_once_in_some_cycles_grows(name: str, cycles: int) -> None:
    size = 2 * ALLOWED[name]
    assert grows(name, [each + size * (n // cycles) for n, each in enumerate(RESTLESS)])


def test_too_few_samples_say_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        grows("channels", [1.0] * 8)
