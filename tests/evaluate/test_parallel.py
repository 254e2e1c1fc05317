import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from polyplink.evaluate.ranking import parallel


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("cores", [1, 5])
def test_each_job_runs_once_with_one_blas_thread_and_errors_are_raised(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    before = blas_threads()
    parts = parallel(lambda jobs: [(job, blas_threads()) for job in jobs], range(10))
    assert len(parts) == cores
    results = sorted((pair for part in parts for pair in part), key=lambda pair: pair[0])
    assert results == [(job, {1}) for job in range(10)]
    with pytest.raises(ZeroDivisionError):
        parallel(lambda jobs: [1 / job for job in jobs], [1, 0, 2])
    assert blas_threads() == before
