import threading
from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from polyplink.evaluate.parallel import parallel


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_every_job_is_done_once(threads: int | None) -> None:
    parts = parallel(list, range(100), threads)
    assert sorted(job for part in parts for job in part) == list(range(100))
    assert len(parts) >= 1
    assert threads is None or len(parts) == threads


def test_no_more_threads_than_jobs() -> None:
    both = threading.Barrier(2)  # is left only when two threads have come

    def work(jobs: Iterator[int]) -> list[int]:
        return [job + both.wait(timeout=60) * 0 for job in jobs]

    assert sorted(parallel(work, [3, 4], 8)) == [[3], [4]]


def test_nothing_to_do_gives_one_result() -> None:
    assert parallel(list, [], 4) == [[]]


def test_blas_has_one_thread_meanwhile() -> None:
    before = blas_threads()
    assert parallel(lambda jobs: [blas_threads() for _ in jobs], [0], 1) == [[{1}]]
    assert blas_threads() == before


def test_what_goes_wrong_in_a_thread_is_raised() -> None:
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        parallel(lambda jobs: [1 / job for job in jobs], [1, 0, 2], 2)
    assert blas_threads() == before
