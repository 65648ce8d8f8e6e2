"""What happens to a group under each fault, in words, and the tests that show it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """A row of the documentation's table.

    Attributes:
        tests: as pytest names them; all, or those of one parameter.
    """

    name: str
    happens: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "a worker is stopped (SIGTERM)",
        "it is assigned no more partitions; its tasks end, then others take those that it has,"
        " within a second or two",
        (
            "tests/groups/test_churn.py::test_order_and_overlap",
            "tests/groups/test_churn.py::test_who_stops_takes_no_more",
        ),
    ),
    Fault(
        "a worker is killed",
        "nobody owns its partitions until its lease has run out; then others take them, within a"
        " second or two. What it was running is lost, or becomes a dead letter, or runs again,"
        " depending on the kind of task",
        ("tests/groups/test_churn.py::test_order_and_overlap",),
    ),
    Fault(
        "a worker freezes for longer than its lease, and wakes",
        "others take its partitions as if it had been killed. When it wakes, it takes nothing from"
        " them until they are assigned to it again. Running tasks go on, with a token that is too"
        " small",
        (
            "tests/groups/test_churn.py::test_order_and_overlap",
            "tests/groups/test_told.py::test_begins_nothing_after_its_lease",
        ),
    ),
    Fault(
        'the same, or killed, with `"push"` on classic queues',
        "the successor is let in when the broker has given up the connection; by then, what was"
        " taken ahead is back in its place",
        ("tests/groups/test_churn.py::test_order_and_overlap[rabbitmq classic/push/keyed]",),
    ),
    Fault(
        'a partition moves, with `"push"` on quorum queues',
        "what was taken ahead may come after what waits: **no order is promised**. All of it comes,"
        " and tasks do not overlap",
        ("tests/groups/test_churn.py::test_taken_ahead_comes_back[quorum]",),
    ),
    Fault(
        'killed, with `"push"` on Redis',
        "what was taken ahead comes back when the visibility timeout is over, which may be after"
        " its successors: **no order is promised**. All of it comes, and tasks do not overlap",
        ("tests/groups/test_churn.py::test_taken_ahead_comes_back[redis]",),
    ),
    Fault(
        "a worker loses the broker",
        "it keeps its partitions, and consumes them again once it is reconnected",
        ("tests/groups/test_away.py::test_broker_is_away",),
    ),
    Fault(
        "a worker loses the broker, and others come or go",
        "what is planned for another is given up when nothing of it runs here any more",
        (
            "tests/groups/test_keeper.py::test_without_a_broker_others_get_what_is_theirs",
            "tests/groups/test_away.py::test_broker_is_away_while_another_joins",
        ),
    ),
    Fault(
        "the broker restarts",
        "the same for all: nothing is revoked or assigned",
        ("tests/groups/test_away.py::test_broker_is_away",),
    ),
    Fault(
        "the store is away, for less than the lease without its margin",
        "`rebalance_failed` is sent, and work goes on",
        (
            "tests/groups/test_away.py::test_store_fails",
            "tests/groups/test_recovery.py::test_comes_back_in_time",
        ),
    ),
    Fault(
        "the store is away for longer",
        "work goes on until a margin before the lease's end, then all partitions are revoked; when"
        " the store is back, they are assigned again",
        (
            "tests/groups/test_away.py::test_store_fails",
            "tests/groups/test_told.py::test_stops_before_its_lease_ends",
            "tests/groups/test_recovery.py::test_asks_again_after_the_delay",
        ),
    ),
    Fault(
        "the store is away when a worker starts",
        "the worker says so, consumes nothing of the group, and does its other work",
        ("tests/groups/test_status.py::test_worker_without_its_store",),
    ),
    Fault(
        "the store loses its data",
        "the group forms again, in a second or two. Meanwhile a partition may have **two owners**;"
        " the later one has the greater token",
        (
            "tests/groups/test_away.py::test_store_fails",
            "tests/core/test_membership.py::test_group_that_was_lost",
        ),
    ),
    Fault(
        "workers' clocks show different times, or drift by less than the margin in a lease",
        "nothing",
        ("tests/groups/test_simulation.py::test_random_trouble",),
    ),
    Fault(
        "the store's clock steps forward",
        "nothing: no lease counts as over for a margin, and who is alive and reaches the store"
        " renews its own in that time. One that does not loses its partitions while it works, at"
        " most until a margin before its own end of the lease",
        (
            "tests/groups/test_clock_steps.py::test_nobody_loses_anything",
            "tests/groups/test_keeper.py::test_a_step_of_the_clock_ends_no_lease",
            "tests/groups/test_keeper.py::test_nor_does_one_who_comes_after_the_step",
        ),
    ),
    Fault(
        "a long task runs when its partition is to move",
        "the partition is given up when the task has ended, or after as long as a lease",
        (
            "tests/groups/test_churn.py::test_running_work_is_waited_for",
            "tests/core/test_membership.py::test_turn_that_comes_back_too_late",
        ),
    ),
    Fault(
        "a task runs for longer than the lease, in the worker's only thread",
        "nothing: the lease is renewed in another thread",
        ("tests/groups/test_churn.py::test_long_task_keeps_its_partition",),
    ),
    Fault(
        "a worker has another number of partitions in its settings",
        "it consumes nothing of the group, and says what differs; the others go on",
        ("tests/groups/test_status.py::test_who_owns_what",),
    ),
    Fault(
        "a worker on another broker has the group's name, and its store",
        "it consumes nothing of the group, and says who has it; the others go on. See"
        " [more than one app](production/checklist.md#more-than-one-app)",
        ("tests/groups/test_two_apps.py::test_another_broker_is_refused",),
    ),
    Fault(
        "there are more workers than partitions, and a spare one comes and goes",
        "nothing",
        ("tests/groups/test_traces.py::test_spare_workers_change_nothing",),
    ),
    Fault(
        "many workers start at once",
        "all have their partitions in a few seconds",
        ("tests/groups/test_keeper.py::test_many_start_at_once",),
    ),
)
