"""Mutated files of every kind, a fixed sample; `make fuzz N=...` runs more of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fuzz

# Cases that failed once, by number.
FAILED = (129, 483, 20705, 21188)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[fuzz.Target]:
    return fuzz.targets(tmp_path_factory.mktemp("whole") / "files")


def failed(cases: Iterator[int] | range, every: list[fuzz.Target], work: Path) -> list[str]:
    found = (fuzz.run_case(case, every, work) for case in cases)
    return [f"case {one.case}, {one.target}: {one.what}" for one in found if one is not None]


def test_a_few_cases_are_read_or_refused(every: list[fuzz.Target], tmp_path: Path) -> None:
    assert not failed(iter([*FAILED, *range(100)]), every, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2100, 500))  # in parts, for several workers
def test_two_thousand_cases_are_read_or_refused(
    first: int, every: list[fuzz.Target], tmp_path: Path
) -> None:
    assert not failed(range(first, first + 500), every, tmp_path)
