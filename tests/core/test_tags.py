"""Laws of start-time fair queueing by key (see `celery_fair.core.keys.tags`)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.keys.tags import Tags, TenantTags, spread

SLACK = 1 + 1e-9  # for the floats
WEIGHT = st.sampled_from((1e-3, 0.3, 1.0, 5.0, 1e3))
CHARGE = st.floats(1e-3, 10.0)
KEYS = "abcdef"


def alike(key: str) -> float:
    return 1.0


def steady() -> float:
    return 1.0


def entries(tags: Tags) -> int:
    """Return how many things are kept, of all kinds."""
    kept = (getattr(tags, name) for name in Tags.__slots__)
    return sum(len(each) for each in kept if isinstance(each, dict | list | set))


def served(tags: TenantTags, charge: float = 1.0, more: bool = True) -> tuple[str, str]:
    """Serve who is next; return who that was."""
    found = tags.first()
    assert found is not None
    tags.serve(*found, charge, more)
    return found


def test_a_first_charge_is_drawn_and_costs_nothing_on_average() -> None:
    drawn = [spread() for _ in range(10_000)]
    assert 0.5 <= min(drawn) < max(drawn) < 1.5
    assert sum(drawn) / len(drawn) == pytest.approx(1, abs=0.03)


@given(
    weights=st.fixed_dictionaries(dict.fromkeys("ab", WEIGHT)),
    steps=st.lists(
        st.tuples(st.sampled_from(("serve", "serve", "come", "go", "hold", "free")), CHARGE),
        min_size=40,
        max_size=200,
    ),
    chance=st.randoms(use_true_random=False),
)
def test_bound(
    weights: dict[str, float], steps: list[tuple[str, float]], chance: random.Random
) -> None:
    """|S_a/w_a - S_b/w_b| <= Max/w_a + Max/w_b, and half of it for the spread, whoever else is."""
    tags = Tags(lambda key: weights.get(key, 1.0), lambda: 0.5 + chance.random())
    for key in "ab":
        tags.arrive(key)
    got = dict.fromkeys(KEYS, 0.0)
    held: set[str] = set()
    largest, history = 0.0, [0.0]
    for step, charge in steps:
        other = chance.choice("cdef")
        if step == "serve":
            key = tags.first()
            assert key is not None
            tags.serve(key, charge, key in "ab" or chance.random() < 0.5)
            got[key] += charge
            largest = max(largest, charge)
            history.append(got["a"] / weights["a"] - got["b"] / weights["b"])
        elif step == "come":
            tags.arrive(other)
        elif step == "go":
            tags.drop(other)
            held.discard(other)
        elif step == "hold" and other in tags and other not in held:
            tags.hold(other)
            held.add(other)
        elif step == "free" and other in held:
            tags.release(other)
            held.discard(other)
    bound = 1.5 * largest * (1 / weights["a"] + 1 / weights["b"])
    assert max(history) - min(history) <= bound * SLACK


@given(
    ahead=st.sets(st.sampled_from(KEYS), min_size=1),
    charges=st.lists(CHARGE, min_size=1, max_size=60),
)
def test_who_is_not_ahead_is_next(ahead: set[str], charges: list[float]) -> None:
    """Whoever else waits, and however many of them."""
    tags = Tags(alike)
    for key in ahead:
        tags.arrive(key)
    for charge in charges:
        tags.serve(str(tags.first()), charge, True)
    tags.arrive("new")
    began = tags.tag("new")
    assert began == tags.virtual
    while (key := tags.first()) != "new":
        assert key is not None
        assert (tags.tag(key) or 0.0) <= began
        tags.serve(key, 1.0, True)


def test_who_is_ahead_is_no_newcomer() -> None:
    """Running empty does not wipe out what was had before its time."""
    tags = Tags(alike, steady)
    for key in "ab":
        tags.arrive(key)
    tags.serve("a", 5.0, False)
    tags.arrive("a")
    for _ in range(5):
        assert tags.first() == "b"
        tags.serve("b", 1.0, True)


def test_what_was_not_used_is_not_saved_up() -> None:
    tags = Tags(alike, steady)
    tags.arrive("b")
    for _ in range(100):
        tags.serve("b", 1.0, True)
    tags.arrive("a")
    order = []
    for _ in range(10):
        order.append(str(tags.first()))
        tags.serve(order[-1], 1.0, True)
    assert order.count("a") <= 6


def test_when_all_is_done_nobody_is_ahead() -> None:
    tags = Tags(alike, steady)
    for key in "ab":
        tags.arrive(key)
    tags.serve("a", 100.0, False)
    tags.serve("b", 1.0, False)
    assert tags.first() is None
    assert entries(tags) == 0
    for key in "ba":
        tags.arrive(key)
    assert tags.tag("a") == tags.tag("b") == tags.virtual
    assert tags.first() == "a"


def parts_served(parts: int, charges: list[float]) -> list[str]:
    """The tenants that are served, the second of three over so many parts."""
    tags = TenantTags(alike, steady)
    for tenant in ("x", "z"):
        tags.arrive(tenant)
    for part in range(parts):
        tags.arrive("y", str(part))
    return [served(tags, charge)[0] for charge in charges]


@given(parts=st.integers(2, 50), charges=st.lists(CHARGE, min_size=20, max_size=100))
def test_parts_gain_nothing(parts: int, charges: list[float]) -> None:
    assert parts_served(parts, charges) == parts_served(1, charges)


def test_parts_share_what_their_tenant_gets() -> None:
    tags = TenantTags(alike)
    tags.arrive("x")
    for part in ("1", "2", "3", "4"):
        tags.arrive("y", part)
    tags.arrive("y", "4")
    order = [served(tags) for _ in range(800)]
    for part in ("1", "2", "3", "4"):
        assert order.count(("y", part)) == pytest.approx(100, abs=2)
    assert order.count(("x", "")) == pytest.approx(400, abs=2)


def test_a_part_that_is_new_is_next_within_its_tenant() -> None:
    tags = TenantTags(alike, steady)
    tags.arrive("y", "old")
    for _ in range(100):
        served(tags)
    tags.arrive("y", "new")
    assert {served(tags)[1], served(tags)[1]} == {"old", "new"}


@pytest.mark.parametrize("weight", [0.2, 5.0])
def test_another_weight_reaches_what_waits(weight: float) -> None:
    """After one message of each key."""
    weights = {"a": 1.0, "b": 1.0}
    tags = TenantTags(lambda tenant: weights.get(tenant, 1.0))
    for key in "ab":
        tags.arrive(key)
    for _ in range(100):
        served(tags)
    weights["a"] = weight
    order = [served(tags)[0] for _ in range(602)][2:]
    assert order.count("a") == pytest.approx(600 * weight / (1 + weight), abs=2)


@given(
    seconds=st.fixed_dictionaries(dict.fromkeys("abc", st.floats(0.1, 10.0))),
    slots=st.integers(1, 8),
)
def test_settled_shares_are_of_seconds(seconds: dict[str, float], slots: int) -> None:
    """A message is charged 1; what it took is known when as many others were started as fit."""
    tags = TenantTags(alike)
    for key in seconds:
        tags.arrive(key)
    got, running = dict.fromkeys(seconds, 0.0), []
    for _ in range(3_000):
        tenant, part = tags.first() or ("", "")
        running.append(tags.serve(tenant, part, 1.0, True))
        got[tenant] += seconds[tenant]
        if len(running) > slots:
            ended = running.pop(0)
            tags.settle(ended, seconds[ended.tenant] - 1.0)
    mean = sum(got.values()) / len(got)
    most = (slots + 3) * max(seconds.values())
    assert all(abs(each - mean) <= most for each in got.values())


def test_what_took_long_is_owed_though_nothing_is_left() -> None:
    tags = TenantTags(alike, steady)
    for key in "ab":
        tags.arrive(key)
    ended = tags.serve("a", "", 1.0, False)
    served(tags)
    served(tags)
    tags.settle(ended, 9.0)
    tags.arrive("a")
    assert [served(tags)[0] for _ in range(8)] == ["b"] * 8
    assert "a" in {served(tags)[0], served(tags)[0]}


def test_what_took_long_is_owed_by_who_is_held() -> None:
    tags = TenantTags(alike, steady)
    for key in "ab":
        tags.arrive(key)
    ended = tags.serve("a", "", 1.0, True)
    tags.tenants.hold("a")
    tags.settle(ended, 5.0)
    tags.tenants.release("a")
    assert [served(tags)[0] for _ in range(6)] == ["b"] * 6


def test_who_comes_is_next_behind_a_flood_that_took_nothing() -> None:
    """As of what has expired."""
    tags = TenantTags(alike, steady)
    tags.arrive("flood")
    for _ in range(1000):
        tags.settle(tags.serve("flood", "", 1.0, True), -1.0, unused=True)
    tags.arrive("quiet")
    assert "quiet" in {served(tags)[0] for _ in range(3)}


def test_a_part_that_took_long_is_behind_its_mates() -> None:
    tags = TenantTags(alike, steady)
    for part in "12":
        tags.arrive("y", part)
    ended = tags.serve("y", "1", 1.0, True)
    tags.settle(ended, 4.0)
    assert [served(tags)[1] for _ in range(5)] == ["2"] * 5


def test_who_is_held_is_left_out_and_saves_nothing_up() -> None:
    tags = Tags(alike, steady)
    for key in "ab":
        tags.arrive(key)
    tags.hold("a")
    tags.arrive("a")
    for _ in range(50):
        assert tags.first() == "b"
        tags.serve("b", 1.0, True)
    tags.release("a")
    order = []
    for _ in range(10):
        order.append(str(tags.first()))
        tags.serve(order[-1], 1.0, True)
    assert order.count("a") == pytest.approx(5, abs=1)
    tags.hold("b")
    tags.hold("a")
    assert tags.first() is None
    assert sorted(tags.held) == ["a", "b"]
    tags.drop("a")
    assert "a" not in tags
    assert "b" in tags


def test_a_part_that_is_gone_was_not_served() -> None:
    tags = TenantTags(alike, steady)
    for part in "12":
        tags.arrive("y", part)
    tags.arrive("z")
    tags.drop("y", "1")
    tags.drop("y", "nobody")
    tags.drop("nobody", "1")
    assert tags.first() == ("y", "2")
    tags.drop("y", "2")
    assert tags.first() == ("z", "")
    tags.drop("z", "")
    assert tags.first() is None


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("come", "serve", "last", "go", "settle")), st.integers(0, 200)),
        max_size=600,
    )
)
def test_what_is_remembered_is_of_what_waits(steps: list[tuple[str, int]]) -> None:
    """Whatever has happened; nothing when all is idle."""
    tags = TenantTags(alike)
    running = []
    for step, number in steps:
        tenant = f"t{number % 40}"
        if step == "come":
            tags.arrive(tenant, f"p{number}")
        elif step in {"serve", "last"} and (found := tags.first()):
            running.append(tags.serve(*found, 1.0, step == "serve"))
        elif step == "go":
            tags.drop(tenant, f"p{number}")
        elif step == "settle" and running:
            tags.settle(running.pop(), number / 20)
    while found := tags.first():
        tags.serve(*found, 1.0, False)
    assert entries(tags.tenants) == 0


@pytest.mark.parametrize("others", [1, 10])
def test_a_key_for_each_message_starves_nobody(others: int) -> None:
    """Of keys that wait all the time each gets half of its share at least."""
    tags = Tags(alike)
    waiting = [f"a{number}" for number in range(others)]
    for key in waiting:
        tags.arrive(key)
    order = []
    for number in range(2_000):
        tags.arrive(f"k{number}")
        order.append(str(tags.first()))
        tags.serve(order[-1], 1.0, order[-1] in waiting)
    assert min(map(order.count, waiting)) >= 0.45 * 2_000 / (others + 1 + len(tags) - others)


@pytest.mark.parametrize("others", [1, 10])
@pytest.mark.parametrize("weight", [1.0, 1e-2, 1e-6])
def test_one_message_of_a_key_that_weighs_little(weight: float, others: int) -> None:
    """Who comes after it comes before all that wait, but for a turn of theirs."""
    tags = Tags(lambda key: weight if key == "light" else 1.0)
    waiting = [f"a{number}" for number in range(others)]
    for key in waiting:
        tags.arrive(key)
    for newcomer in ["light", "quiet"]:
        order = []
        tags.arrive(newcomer)
        while newcomer in tags:
            order.append(str(tags.first()))
            tags.serve(order[-1], 1.0, order[-1] in waiting)
        assert len(order) <= others + 2


def test_thousands_of_keys_one_after_the_other_leave_nothing() -> None:
    """A key for each message, while somebody is held, so that the queue is never idle."""
    tags = Tags(alike)
    tags.arrive("held")
    tags.hold("held")
    sizes = []
    for number in range(20_000):
        tags.arrive(f"k{number}")
        tags.drop("again")
        tags.arrive("again")
        tags.settle("again", 0.0, 1e-9)
        tags.serve(f"k{number}", 1.0, number % 7 > 0)
        tags.drop(f"k{number}")
        sizes.append(entries(tags))
    assert max(sizes) < 400


def test_who_comes_and_goes_ahead_of_its_time_is_remembered_once() -> None:
    """While nothing is served, so that the virtual time stands still."""
    tags = Tags(alike, steady)
    tags.arrive("held")
    tags.hold("held")
    tags.arrive("a")
    tags.serve("a", 100.0, False)
    for _ in range(1_000):
        tags.arrive("a")
        assert tags.tag("a") == 100.0
        tags.drop("a")
    assert entries(tags) < 100


@pytest.mark.parametrize("tenants", [10, 100, 1_000])
def test_a_quiet_tenant_is_next_however_many_wait(tenants: int) -> None:
    """In task times, with eight slots: 0.3 in the median, one and a half at the most.

    A ring of turns would have it wait for all of them: 125 with a thousand. It is quiet: it has
    less than its share, and the others have all had their first message when it begins.
    """
    chance = random.Random(7)
    tags = TenantTags(alike, lambda: 0.5 + chance.random())
    for number in range(tenants):
        tags.arrive(f"t{number}")
    slots = [chance.random() for _ in range(8)]  # when each is free next
    share = tenants / len(slots)  # a message in so many task times
    waits, comes = [], 2 * share
    came: float | None = None
    while len(waits) < 40:
        now = min(slots)
        if came is None and now >= comes:
            came = comes
            tags.arrive("quiet")
        tenant, part = tags.first() or ("", "")
        tags.serve(tenant, part, 1.0, tenant != "quiet")
        if tenant == "quiet" and came is not None:
            waits.append(now - came)
            came, comes = None, now + (1.5 + chance.random()) * share
        slots[slots.index(now)] = now + 1.0
    assert sorted(waits)[len(waits) // 2] <= 0.3
    assert max(waits) <= 1.5


def test_who_is_held_is_known() -> None:
    tags = Tags(alike, steady)
    tags.arrive("a")
    assert "a" not in tags.held
    tags.hold("a")
    assert "a" in tags.held
    assert "a" not in tags.waiting
    tags.release("a")
    assert "a" not in tags.held
    assert "a" in tags.waiting
