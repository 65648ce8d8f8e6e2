"""Settings of priorities, leashes, caps and live control: what they take, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import QueueOptions, Settings, parse_live_options

REDIS = "redis://127.0.0.1:1/0"
LEVELS = {"sms.slow": [0, 4], "sms.fast": [5, 9]}


def app_of(broker: Any = "memory://", **conf: Any) -> Celery:
    app = Celery("settings", broker=broker, set_as_current=False)
    app.conf.update({f"fair_{name}": value for name, value in conf.items()})
    return app


def settings_of(broker: Any = "memory://", **conf: Any) -> Settings:
    return Settings.of(app_of(broker, **conf))


def options_of(broker: Any = "memory://", **options: Any) -> QueueOptions:
    return settings_of(broker, policy="strict", queues={"q": options}).queue("q")


@pytest.fixture(autouse=True)
def _no_broker_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL"):
        monkeypatch.delenv(name, raising=False)


GOOD_OPTIONS: list[tuple[str, str, Any, Any]] = [
    ("class", "level", 0, 0),
    ("rate", "rate", "10/s", 10),
    ("rate", "rate", "600/m", 10),
    ("rate", "rate", "7200/h", 2),
    ("rate", "rate", 0.5, 0.5),
    ("rate", "rate", 3, 3),
    ("rate", "rate", "3", 3),
    ("rate", "rate", None, None),
    ("max_in_flight", "max_in_flight", 1, 1),
    ("max_in_flight", "max_in_flight", 65535, 65535),
    ("max_in_flight", "max_in_flight", None, None),
    ("exclusive", "exclusive", True, True),
    ("exclusive", "exclusive", False, False),
    ("scope", "scope", "worker", "worker"),
]


@pytest.mark.parametrize(("option", "name", "value", "parsed"), GOOD_OPTIONS)
def test_options(option: str, name: str, value: Any, parsed: Any) -> None:
    assert getattr(options_of(**{option: value}), name) == parsed


def test_a_leash_of_all_workers() -> None:
    options = options_of(REDIS, rate="10/s", burst=5, scope="cluster")
    assert (options.rate, options.burst, options.scope) == (10, 5, "cluster")


def test_without_options_nothing_is_held_back() -> None:
    options = settings_of().queue("any")
    assert options == QueueOptions(quantum=1)
    assert (options.rate, options.burst, options.max_in_flight) == (None, 1, None)
    assert (options.level, options.scope, options.exclusive) == (0, "worker", False)


WHOLE_CLASS = "must be a whole number of at least 0"
WHOLE_BURST = "must be a whole number from 1 to 1000000"
WHOLE_COUNT = "must be a whole number from 1 to 65535, or None"
A_RATE = "a rate is a number per second above zero or a text like '10/s', '600/m', '5/h'"

BAD_OPTIONS: list[tuple[str, Any, str]] = [
    *(("class", value, WHOLE_CLASS) for value in (-1, 1.0, "1", True, None)),
    *(
        ("rate", value, A_RATE)
        for value in (
            0,
            -1,
            "0/s",
            "10/d",
            "ten",
            "",
            "10/",
            math.nan,
            math.inf,
            True,
            10**400,
            [1],
        )
    ),
    *(("burst", value, WHOLE_BURST) for value in (0, -1, 0.5, 1.5, "5", True, None, 10**400)),
    *(("max_in_flight", value, WHOLE_COUNT) for value in (0, -1, 65536, 1.0, "2", True)),
    *(
        ("scope", value, "must be one of 'worker', 'cluster'")
        for value in ("all", "", None, True, ["cluster"])
    ),
    *(("exclusive", value, "must be True or False") for value in (1, 0, "yes", None)),
    ("quantum", 10**400, "must be a finite number above zero"),
]


@pytest.mark.parametrize(("option", "value", "allowed"), BAD_OPTIONS)
def test_bad_options(option: str, value: Any, allowed: str) -> None:
    others = {"rate": "1/s"} if option in {"burst", "scope"} else {}
    with pytest.raises(ImproperlyConfigured) as refused:
        options_of(**others, **{option: value})
    for part in ("fair_queues['q']", f"[{option!r}]", f"not {value!r}", allowed):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"burst": 5}, "fair_queues['q']: 'burst' needs a 'rate', such as '10/s'"),
        ({"burst": 5, "rate": None}, "fair_queues['q']: 'burst' needs a 'rate', such as '10/s'"),
        ({"scope": "cluster"}, "fair_queues['q']: 'scope' needs a 'rate', such as '10/s'"),
        ({"level": 1}, "fair_queues['q']: unknown option 'level'; there are: burst, class,"),
        ({7: 1}, "fair_queues['q']: unknown option 7; there are: burst, class,"),
        ("fast", "fair_queues['q'] must be a mapping of options (burst, class,"),
    ],
)
def test_bad_queues(options: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(REDIS, queues={"good": {"quantum": 2}, "q": options})
    assert message in str(refused.value)


TARGETS = {"b": {"target": "95% < 1s"}, "a": {"target": "99% < 2min"}}


def test_targets_are_in_the_order_of_the_table_and_of_their_importance() -> None:
    assert settings_of(queues={"a": {}, "b": {"quantum": 3}}).targets is None
    found = settings_of(queues={**TARGETS, "c": {"target": "90% < 5s", "importance": 1}, "d": {}})
    assert found.targets is not None
    assert list(found.targets.of) == ["c", "b", "a"]
    assert found.targets.of["a"] == (0.99, 120.0)
    assert found.targets[1:] == (False, 0.01)
    parted = settings_of(queues=TARGETS, partitions={"b": {"partitions": 2}})
    assert parted.targets is not None
    assert list(parted.targets.of) == ["b.0", "b.1", "a"]
    other = settings_of(queues=TARGETS, overload="proportion", floor=0.05)
    assert other.targets is not None
    assert other.targets[1:] == (True, 0.05)


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"queues": {"q": {"target": "fast"}}}, "fair_queues['q']['target']: a target is written"),
        ({"queues": {"q": {"target": "100% < 1s"}}}, "of less than 100%, not 100%"),
        ({"queues": {"q": {"importance": 2}}}, "fair_queues['q']: 'importance' needs a 'target'"),
        (
            {"queues": TARGETS, "policy": "strict"},
            "fair_queues['b']['target'] has no meaning with fair_policy = 'strict'",
        ),
        ({"overload": "fifo"}, "fair_overload must be one of 'importance', 'proportion'"),
        ({"overload": "proportion"}, "fair_overload has a meaning with a 'target' in fair_queues"),
        ({"floor": 0.05}, "fair_floor has a meaning with a 'target' in fair_queues only"),
        ({"floor": 0}, "fair_floor must be a number above 0 and up to 0.1, not 0"),
        ({"floor": 0.5}, "fair_floor must be a number above 0 and up to 0.1, not 0.5"),
        ({"floor": True}, "fair_floor must be a number above 0 and up to 0.1, not True"),
    ],
)
def test_bad_targets(conf: dict[str, Any], message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(**conf)
    assert message in str(refused.value)


def test_a_class_needs_strict_policy() -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(queues={"q": {"class": 3}})
    assert str(refused.value) == (
        "fair_queues['q']['class']: 3 has no meaning with fair_policy = 'dwrr'; set fair_policy ="
        " 'strict', or leave the class out"
    )
    assert settings_of(queues={"q": {"class": 0}}).queue("q").level == 0


def test_policy_and_ageing() -> None:
    assert (settings_of().policy, settings_of().max_wait) == ("dwrr", None)
    settings = settings_of(policy="strict", max_wait=30)
    assert (settings.policy, settings.max_wait) == ("strict", 30)
    assert settings_of(policy="strict", max_wait=None).max_wait is None


@pytest.mark.parametrize("value", ["fifo", "", "DWRR", None, 1, ["dwrr"]])
def test_bad_policies(value: Any) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(policy=value)
    assert str(refused.value) == f"fair_policy must be one of 'dwrr', 'strict', not {value!r}"


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "30", True, 10**400])
def test_bad_waits(value: Any) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(policy="strict", max_wait=value)
    assert str(refused.value) == (
        f"fair_max_wait must be a finite number of seconds above zero, or None, not {value!r}"
    )


def test_ageing_needs_strict_policy() -> None:
    with pytest.raises(ImproperlyConfigured, match="fair_max_wait needs fair_policy = 'strict'"):
        settings_of(max_wait=30)


# Where the leash of all workers is kept.


@pytest.mark.parametrize("url", [REDIS, "rediss://h:6379/1", "unix:///run/redis.sock?db=2"])
def test_the_leash_is_where_it_is_said_to_be(url: str) -> None:
    queues = {"q": {"rate": 1, "scope": "cluster"}}
    assert settings_of("amqp://", leash_url=url, queues=queues).leash_url == url
    assert settings_of("redis://other", leash_url=url, queues=queues).leash_url == url


@pytest.mark.parametrize(
    "broker", [REDIS, [REDIS, "redis://second"], f"{REDIS};redis://second"], ids=repr
)
def test_or_else_at_the_broker_itself(broker: Any) -> None:
    assert settings_of(broker).leash_url == REDIS


def test_or_where_the_environment_has_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", REDIS)
    assert settings_of("amqp://", queues={"q": {"rate": 1, "scope": "cluster"}}).leash_url == REDIS


def test_or_where_the_broker_is_read_from() -> None:
    app = app_of("amqp://")
    app.conf.broker_read_url = REDIS
    assert Settings.of(app).leash_url == REDIS


@pytest.mark.parametrize(
    ("broker", "use_ssl"),
    [
        ("rediss://h", {"ssl_ca_certs": "/ca.pem"}),
        ("redis://h", True),
        ("redis://h?credential_provider=shop.Tokens", None),
    ],
)
def test_but_not_where_its_url_does_not_say_all(broker: str, use_ssl: Any) -> None:
    """Each worker would be refused there, and keep to the whole rate alone."""
    app = app_of([broker])
    app.conf.broker_use_ssl = use_ssl
    assert Settings.of(app).leash_url is None
    app.conf.fair_queues = {"q": {"rate": 1, "scope": "cluster"}}
    with pytest.raises(ImproperlyConfigured, match=r"set fair_leash_url = .*'rediss://…'"):
        Settings.of(app)
    app.conf.fair_leash_url = "rediss://h?ssl_ca_certs=/ca.pem"
    assert Settings.of(app).leash_url == app.conf.fair_leash_url


@pytest.mark.parametrize("url", ["http://h:port", "amqp://me:secret@h"])
@pytest.mark.parametrize("broker", ["amqp://", REDIS])
def test_no_leash_is_kept_anywhere_else(broker: str, url: str) -> None:
    """Though no leash is there yet: `fair set` may bring one."""
    with pytest.raises(
        ImproperlyConfigured, match=r"fair_leash_url must be a URL of a Redis such as"
    ) as refused:
        settings_of(broker, leash_url=url)
    assert "not '" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_keys_are_counted_nowhere_else() -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"fair_key_store must be a URL of a Redis such as"
    ) as refused:
        settings_of("amqp://", key_store="postgresql://me:secret@h/d")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("broker", "conf", "shown"),
    [
        ("amqp://", {}, "not 'amqp://…'"),
        (None, {}, "not None"),
        ([], {}, "not None"),
        ("amqp://me:secret@h", {}, "not 'amqp://…'"),
    ],
)
def test_a_leash_of_all_workers_needs_a_redis(broker: Any, conf: Any, shown: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(broker, queues={"q": {"rate": 1, "scope": "cluster"}}, **conf)
    assert "fair_queues['q']['scope']: 'cluster' needs a Redis" in str(refused.value)
    assert "set fair_leash_url = 'redis://…'" in str(refused.value)
    assert shown in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("value", ["", 1, ["redis://h"]])
def test_bad_leash_urls(value: Any) -> None:
    with pytest.raises(
        ImproperlyConfigured, match="fair_leash_url must be a URL of a Redis such as"
    ):
        settings_of(leash_url=value)


# Logical queues.


def test_logical_queues() -> None:
    settings = settings_of(
        logical_queues={
            "sms": {"levels": LEVELS},
            "mail": {"native": True},
            "fax": {"native": True, "levels": {"fax": [0, 9]}},
        }
    )
    sms, mail, fax = (settings.logical_queues[name] for name in ("sms", "mail", "fax"))
    assert [sms.levels.queue(p) for p in (0, 4, 5, 9)] == ["sms.slow"] * 2 + ["sms.fast"] * 2
    assert (sms.native, mail.native, fax.native) == (False, True, True)


def test_application_code_and_levels_stay_when_the_broker_takes_over() -> None:
    queues = {"sms.fast": {"quantum": 2}, "sms": {"quantum": 3}}
    logical = {"sms": {"levels": LEVELS, "native": True}}
    assert settings_of(logical_queues=logical, queues=queues).logical_queues["sms"].native


BAD_LOGICAL: list[tuple[Any, str]] = [
    ({"levels": {"a": [0, 5], "b": [5, 9]}}, "['levels']: priority 5 of 'b' is in another level"),
    ({"levels": {"a": [0, 3], "b": [5, 9]}}, "['levels']: no level has priority 4"),
    ({"levels": {"a": [0, 8]}}, "['levels']: no level has priority 9"),
    ({"levels": {"a": [0, 10]}}, "['levels']: the range of 'a' must be [lowest, highest]"),
    ({"levels": {}}, "['levels']: levels must map queue names to [lowest, highest], not {}"),
    ({}, "['levels']: levels must map queue names to [lowest, highest], not None"),
    ({"native": False}, "['levels']: levels must map queue names to [lowest, highest], not None"),
    ({"levels": {"": [0, 9]}}, "['levels']: '' is no queue name; a name is text of 1 to 255"),
    ({"levels": {7: [0, 9]}}, "['levels']: 7 is no queue name"),
    ({"levels": {"ä" * 128: [0, 9]}}, "is no queue name"),
    ({"levels": {"sms": [0, 9]}}, "['levels']: 'sms' is a logical queue itself"),
    ({"levels": {"other": [0, 9]}}, "['levels']: 'other' is a logical queue itself"),
    ({"levels": LEVELS, "native": 1}, "['native'] must be True or False, not 1"),
    ({"levels": LEVELS, "nativ": True}, "unknown option 'nativ'; there are: levels, native"),
    ([LEVELS], "must be a mapping of options (levels, native), not [{"),
]


@pytest.mark.parametrize(("options", "message"), BAD_LOGICAL)
def test_bad_logical_queues(options: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(logical_queues={"other": {"levels": {"x": [0, 9]}}, "sms": options})
    assert str(refused.value).startswith("fair_logical_queues['sms']")
    assert message in str(refused.value)


def test_a_logical_queue_takes_no_options_itself() -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(logical_queues={"sms": {"levels": LEVELS}}, queues={"sms": {"quantum": 2}})
    assert str(refused.value) == (
        "fair_queues: 'sms' is a logical queue; give options to its levels: sms.slow, sms.fast"
    )


@pytest.mark.parametrize("name", ["queues", "logical_queues"])
@pytest.mark.parametrize("value", [[], "sms", 0, {""}, ["sms"]])
def test_what_is_no_mapping_of_queues(name: str, value: Any) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(**{name: value})
    assert str(refused.value) == (
        f"fair_{name} must be a mapping of queue names to options, not {value!r}"
    )


@pytest.mark.parametrize("name", ["", " ", 7, None, "q" * 256])
def test_what_is_no_name_of_a_logical_queue(name: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"fair_logical_queues: .* is no queue name"):
        settings_of(logical_queues={name: {"levels": LEVELS}})


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ImproperlyConfigured, match="fair_polcy is not a setting of celery_fair"):
        settings_of(polcy="strict")


def test_what_is_refused_changes_nothing() -> None:
    app = app_of(REDIS, queues={"q": {"rate": "1/s"}})
    before = Settings.of(app)
    app.conf.fair_logical_queues = {"sms": {"levels": {"a": [0, 3]}}}
    with pytest.raises(ImproperlyConfigured):
        Settings.of(app)
    app.conf.fair_logical_queues = None
    assert Settings.of(app) == before


# Options that are set live.


def test_live_options() -> None:
    parsed = parse_live_options("q", {"quantum": 7, "rate": "600/m", "burst": 5})
    assert parsed == {"quantum": 7, "rate": 10, "burst": 5}
    parsed = parse_live_options("q", {"rate": None, "max_in_flight": None, "prefetch": 9})
    assert parsed == {"rate": None, "max_in_flight": None, "prefetch": 9}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "set q: nothing to set; there are: quantum, target, rate, burst, max_in_flight,",
        ),
        ({"class": 1}, "set q: 'class' cannot be changed while consuming; these can: quantum,"),
        ({"scope": "cluster"}, "set q: 'scope' cannot be changed while consuming"),
        ({"exclusive": True}, "set q: 'exclusive' cannot be changed while consuming"),
        ({"quantum": 5, "colour": 1}, "fair_queues['q']: unknown option 'colour'; there are:"),
        ({"quantum": 5, "rate": "fast"}, "fair_queues['q']['rate']: a rate is a number"),
    ],
)
def test_bad_live_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        parse_live_options("q", options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("queue", "options", "wrong"),
    [
        ("jobs", {"prefetch": 5}, "set jobs: 'prefetch' belongs to a subscription"),
        ("pulled", {"prefetch": 5}, "set pulled: 'prefetch' belongs to a subscription"),
        ("p.0", {"max_in_flight": 8}, "set p.0: a partition runs one task at a time"),
        ("q", {"burst": 8}, "set q: 'burst' needs a 'rate'"),
    ],
)
def test_changes_that_mean_nothing_to_a_queue(
    queue: str, options: dict[str, Any], wrong: str
) -> None:
    settings = settings_of(
        keys={"jobs": {}},
        queues={"pulled": {"fetch": "pull"}},
        partitions={"p": {"partitions": 2}},
        group_store=REDIS,
    )
    with pytest.raises(ImproperlyConfigured, match=wrong):
        settings.changed(queue, options)
    assert settings.changed("q", {"prefetch": 5, "quantum": 3}).prefetch == 5
    assert settings.changed("jobs", {"prefetch": None}).prefetch is None
    leashed = QueueOptions(1.0, rate=10.0)
    assert settings.changed("q", {"burst": 8}, leashed).burst == 8
