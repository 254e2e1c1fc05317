"""What a count says of its intervals and of the data that its models were fitted on."""

from dataclasses import replace
from pathlib import Path

import pytest

from polyplink.core.messages import LANGUAGES, Language, catalogue
from polyplink.counting.result import Count
from polyplink.report.formats import Texts


def test_what_intervals_hold_is_said_only_where_a_procedure_has_one(run_folder: Path) -> None:
    count = Count.read(run_folder / "count")
    assert count.cover is not None
    count = replace(count, cover=replace(count.cover, gap=""))
    assert count.basis is None  # no procedure of it has an interval
    assert count.header()["basis"] == {language: [] for language in LANGUAGES}
    first, *others = count.procedures
    count = replace(count, procedures=(replace(first, low=1, high=3), *others))
    assert str(count.basis).startswith("A 90 % interval holds the true number in 9 of 10")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_count_of_0_without_an_interval_says_so(language: Language) -> None:
    t, texts = Texts(language), catalogue(language)
    assert t.interval(None, None, 0) == texts["interval.zero"]
    assert t.interval(None, None, 2) == t.interval(None, None) == texts["interval.none"]
    assert t.interval(0, 1, 0) == texts["interval"].format(low=0, high=1)
