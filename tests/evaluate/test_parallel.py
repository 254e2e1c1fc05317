import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from polyplink.evaluate.ranking import parallel


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_every_job_is_done_once(threads: int | None) -> None:
    parts = parallel(list, range(100), threads)
    assert sorted(job for part in parts for job in part) == list(range(100))
    assert len(parts) >= 1
    assert threads is None or len(parts) == threads


def test_blas_has_one_thread_meanwhile() -> None:
    before = blas_threads()
    assert parallel(lambda jobs: [blas_threads() for _ in jobs], [0], 1) == [[{1}]]
    assert blas_threads() == before


def test_what_goes_wrong_in_a_thread_is_raised() -> None:
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        parallel(lambda jobs: [1 / job for job in jobs], [1, 0, 2], 2)
    assert blas_threads() == before
