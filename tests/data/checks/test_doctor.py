from dataclasses import replace

from hypothesis import given, settings

from polyplink.data import DataSet, diagnose
from polyplink.data.checks.findings import SEVERITIES
from tests.data.made_sets import data_set, data_sets, procedure_row, small_set


def test_worst_first_and_images_only_when_asked() -> None:
    rows = [("a", 0, 1, 1, 5, 9, None), ("a", 99, 1, 1, 9, 9, "a_1")]
    data = data_set(rows, [], [procedure_row("a")], {"train": ["a"], "eval": ["a"]})
    findings = diagnose(data, images=False)
    assert [(f.severity, f.check) for f in findings] == [
        ("error", "procedure in two parts"),
        ("error", "frame number"),
        ("error", "unknown polyp"),
        ("warning", "tiny box"),
        ("note", "box without polyp"),
        ("note", "procedure without polyp"),
        ("note", "licence"),
    ]
    more = {f.check for f in diagnose(data, images=True)} - {f.check for f in findings}
    assert more == {"box without image"}


def test_a_patient_s_sound_set_has_notes_alone() -> None:
    data = replace(small_set(), splits={})
    assert {f.severity for f in diagnose(data, images=False)} == {"note"}


@settings(max_examples=40, deadline=None)
@given(data_sets())
def test_what_an_importer_writes_has_no_error(data: DataSet) -> None:
    findings = diagnose(data, images=True)
    assert "error" not in {f.severity for f in findings}
    ranks = [SEVERITIES.index(f.severity) for f in findings]
    assert ranks == sorted(ranks)
    assert all(f.count > 0 and f.what and f.mend for f in findings)
