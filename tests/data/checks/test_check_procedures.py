from dataclasses import replace

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.data import DataSet, Finding
from polyplink.data.checks.check_procedures import (
    check_contents,
    check_overlaps,
    check_splits,
)
from tests.data.made_sets import data_set, procedure_row, small_set


def _told(findings: list[Finding]) -> dict[str, tuple[str, int, str]]:
    return {f.check: (f.severity, f.count, f.what) for f in findings}


def _grouped(patients: dict[str, str], splits: dict[str, list[str]]) -> DataSet:
    rows = [procedure_row(name, patient=patient) for name, patient in patients.items()]
    return data_set([], [], rows, splits)


def test_contents() -> None:
    assert _told(check_contents(small_set())) == {
        "procedure without box": ("note", 1, "procedure 001-010 has no box and 0 polyps"),
        "procedure without polyp": ("note", 1, "procedure 001-010 has no polyp"),
        "procedure with one polyp": ("note", 1, "procedure 001-009 has one polyp"),
    }


def test_polyp_without_box() -> None:
    data = small_set()
    fewer = replace(data, detections=data.detections.filter(pl.col("frame") == 0))
    told = _told(check_contents(fewer))
    assert told["polyp without box"] == ("warning", 2, "procedure 001-001: no box of 001-001_2")
    assert told["procedure without box"][1:] == (2, "procedure 001-009 has no box and 1 polyps")


def test_a_clean_split_and_none() -> None:
    data = small_set()
    assert check_splits(data) == check_splits(replace(data, splits={})) == []


def test_procedure_and_patient_in_two_parts() -> None:
    patients = {"a": "p", "b": "p", "c": "q", "d": "r"}
    data = _grouped(patients, {"train": ["a", "c"], "eval": ["b", "c"], "test": ["b", "z"]})
    assert _told(check_splits(data)) == {
        "procedure in two parts": (
            "error", 2, "splits.json: procedure c is in train and eval",
        ),
        "unknown procedure in a part": (
            "error", 1,
            "splits.json: part test names z, which is in no row of procedures",
        ),
        "procedure in no part": ("note", 1, "splits.json: procedure d is in no part"),
    }  # fmt: skip
    data = _grouped(patients, {"train": ["a", "c"], "eval": ["b", "d"]})
    assert _told(check_splits(data)) == {
        "patient in two parts": ("error", 1, "splits.json: patient p is in train and eval")
    }


def test_patients_of_one_name_in_two_data_sets_are_two() -> None:
    rows = [procedure_row("a", patient="1"), procedure_row("b", patient="1", dataset="sun")]
    assert check_splits(data_set([], [], rows, {"train": ["a"], "eval": ["b"]})) == []


def test_sets_that_hold_the_same_videos() -> None:
    rows = [procedure_row("a"), procedure_row("b", dataset="Colon-Bench")]
    assert _told(check_overlaps(data_set([], [], rows))) == {
        "overlapping data sets": (
            "warning", 1,
            "real-colon and Colon-Bench overlap: Colon-Bench is made of REAL-Colon's videos",
        )
    }  # fmt: skip
    assert check_overlaps(small_set()) == []


_parts = st.dictionaries(
    st.sampled_from(["train", "eval", "test"]),
    st.lists(st.sampled_from("abcdz"), unique=True, max_size=5),
)


@settings(deadline=None)
@given(st.lists(st.sampled_from("pqr"), min_size=4, max_size=4), _parts)
def test_leakage_against_a_loop(groups: list[str], splits: dict[str, list[str]]) -> None:
    patients = dict(zip("abcd", groups, strict=True))
    parts_of = {name: {p for p, names in splits.items() if name in names} for name in "abcdz"}
    twice = {name for name, parts in parts_of.items() if len(parts) > 1}
    leaks = set()
    for one in set(patients) - twice:
        for other in set(patients) - twice - {one}:
            if patients[one] == patients[other] and len(parts_of[one] | parts_of[other]) > 1:
                leaks.add(patients[one])
    told = _told(check_splits(_grouped(patients, splits)))
    naive = {
        "procedure in two parts": len(twice),
        "patient in two parts": len(leaks),
        "unknown procedure in a part": len(parts_of["z"]),
        "procedure in no part": sum(not parts_of[n] for n in patients) if splits else 0,
    }
    assert {check: count for check, (_, count, _) in told.items()} == {
        check: count for check, count in naive.items() if count
    }
