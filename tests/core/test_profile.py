"""What a key may publish in passing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.token_bucket import Profile


def test_a_burst_and_then_the_rate() -> None:
    profile = Profile(burst=2, rate=1, most=10)
    assert [profile.admits("a", 0.0) for _ in range(3)] == [True, True, False]
    assert [profile.admits("a", 1.0) for _ in range(2)] == [True, False]
    assert [profile.admits("a", 99.0) for _ in range(3)] == [True, True, False]


def test_keys_have_buckets_of_their_own() -> None:
    profile = Profile(burst=1, rate=1, most=10)
    assert profile.admits("a", 0.0)
    assert profile.admits("b", 0.0)
    assert not profile.admits("a", 0.0)


def test_a_clock_that_goes_back_makes_no_tokens() -> None:
    profile = Profile(burst=1, rate=1, most=10)
    assert profile.admits("a", 5.0)
    assert not profile.admits("a", 4.0)
    assert not profile.admits("a", 4.5)


def test_those_seen_longest_ago_are_forgotten() -> None:
    profile = Profile(burst=1, rate=1, most=2)
    for key in "abac":
        profile.admits(key, 0.0)
    assert len(profile) == 2
    assert not profile.admits("a", 0.0)
    assert profile.admits("b", 0.0)


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(1, 5), st.floats(0.1, 3))
def test_never_more_than_the_bucket_allows(gaps: list[float], burst: int, rate: float) -> None:
    profile = Profile(burst=burst, rate=rate, most=1)
    now, admitted = 0.0, []
    for gap in gaps:
        now += gap
        if profile.admits("a", now):
            admitted.append(now)
    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            count = last - first + 1
            assert count <= burst + rate * (admitted[last] - admitted[first]) + 1e-6
