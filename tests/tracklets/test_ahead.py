import threading
from collections.abc import Iterator

import pytest

from polyplink.tracklets.ahead import threads


def test_results_come_in_order_and_few_are_in_flight() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(40):
            taken.append(item)
            yield item

    with threads(2) as pool:
        results = pool.map(lambda item: item * 2, items(), ahead=3)
        assert next(results) == 0
        assert len(taken) == 6
        assert [0, *results] == [2 * item for item in range(40)]


def test_an_error_comes_out_and_what_waits_is_not_begun() -> None:
    begun: list[int] = []
    first = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item == 0:
            first.wait(5)
            raise ValueError("broken")
        return item

    with pytest.raises(ValueError, match="broken"), threads(1) as pool:
        results = pool.map(work, range(100), ahead=50)
        first.set()
        next(results)
    assert len(begun) < 100
