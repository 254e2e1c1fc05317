import polars as pl

from polyplink.data import DataSet
from polyplink.data.checks.licences import LICENCES, check_licences
from tests.data.made_sets import small_set


def named(name: str) -> DataSet:
    data = small_set()
    table = data.procedures.with_columns(dataset=pl.lit(name))
    return DataSet.of(data.detections, table, data.polyps)


def test_known_sets_tell_terms_and_access() -> None:
    for name, licence in LICENCES.items():
        (finding,) = check_licences(named(name))
        assert (finding.severity, finding.check, finding.count) == ("note", "licence", 3)
        assert finding.what == f"{name}: {licence.terms}; {licence.access}"


def test_unknown_sets_and_simulated_ones() -> None:
    (finding,) = check_licences(named("my clinic"))
    assert finding.check == "licence not known"
    assert check_licences(named("simulated tiny 0")) == []
