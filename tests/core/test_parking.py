"""How many messages a worker keeps beside its windows, and who is told when there is room."""

from __future__ import annotations

import math

from celery_fair.core.parking import Parking


class Told:
    def __init__(self, limit: int | None) -> None:
        self.times = 0
        self.parking = Parking(limit, self._tell)

    def _tell(self) -> None:
        self.times += 1

    def park(self, count: int) -> None:
        for _ in range(count):
            self.parking.enter()


def test_without_a_limit_there_is_room_for_any_number() -> None:
    parking = Told(None).parking
    parking.enter()
    assert parking.places(1, 4) == math.inf


def test_all_queues_together_keep_no_more_than_the_limit_and_each_its_window() -> None:
    told = Told(10)
    told.park(7)  # 5 of one, 2 of another
    assert told.parking.places(5, 4) == 8
    assert told.parking.places(2, 4) == 5
    told.park(5)
    assert told.parking.room == -2
    assert told.parking.places(5, 4) == 4


def test_a_stuck_queue_is_told_once_there_is_room() -> None:
    told = Told(3)
    told.park(4)
    told.parking.places(4, 4)
    told.parking.leave()
    assert told.times == 0  # there were more than the limit
    told.parking.leave()
    told.parking.leave()
    assert told.times == 1  # and is not stuck, until it says so again


def test_a_queue_whose_window_is_not_full_is_not_stuck() -> None:
    told = Told(2)
    told.park(3)
    told.parking.places(3, 4)
    told.parking.leave(2)
    assert told.times == 0


def test_it_is_told_when_none_is_put_off_any_more() -> None:
    told = Told(None)
    told.park(3)
    told.parking.leave(2)
    assert told.times == 0
    told.parking.leave()
    assert told.times == 1
