"""Mutated files of every kind, a fixed sample; `make fuzz N=...` runs more of them."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import fuzz

# As `polyplink` does with warnings of libraries: Pillow's, of tags that are cut short.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")
# Cases that failed once.
FAILED = (
    *("index:11", "index:224", "prepared:13", "operating:15", "torch legacy:227", "torch zip:259"),
    *("tables:282", "counted:295", "counted:344", "vectors:377", "vectors:398", "masks:2247"),
    *("stopped detection:9200001", "stopped detection:5", "video mp4:70003342"),
    *("video mp4:90004295", "video ts:90001006", "detector:90023228"),
    *("kept crops:200000835", "review requests:200000227", "index:6"),
)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fuzz.Target]:
    root = tmp_path_factory.mktemp("whole") / "files"
    return {target.name: target for target in fuzz.targets(root)}


def failed(cases: Iterable[tuple[fuzz.Target, int]], work: Path, whole: bool = False) -> list[str]:
    places: dict[str, fuzz.Scratch] = {}
    wrong = []
    for target, number in cases:
        if target.name not in places:
            places[target.name] = fuzz.Scratch(target, work / target.name)
            if whole:
                fuzz.check_whole(places[target.name])
        result = fuzz.run_case(places[target.name], number)
        if isinstance(result, fuzz.Failure):
            wrong.append(f"{result.case}: {result.what}")
    return wrong


def test_cases_that_failed_are_read_or_refused(
    every: dict[str, fuzz.Target], tmp_path: Path
) -> None:
    again = (case.split(":") for case in FAILED)
    assert not failed(((every[name], int(number)) for name, number in again), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 44, 11))  # in parts, for several workers
def test_two_thousand_cases_are_read_or_refused(
    first: int, every: dict[str, fuzz.Target], tmp_path: Path
) -> None:
    cases = ((target, k) for target in every.values() for k in range(first, first + 11))
    assert not failed(cases, tmp_path, whole=first == 0)
