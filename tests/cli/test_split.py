"""The verb split: parts of a data folder by patient."""

import json
from pathlib import Path

import polars as pl

from polyplink.data.tables import DataSet, read_data, write_data
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.samples import write_procedures


def two_procedures_per_patient(tmp_path: Path) -> Path:
    """Eight procedures of four patients, without parts."""
    folder = write_procedures(tmp_path, procedures=8, polyps=1, views=1, images=False)
    data = read_data(folder)
    patients = [f"p{i // 2}" for i in range(8)]
    procedures = data.procedures.with_columns(patient=pl.Series(patients))
    write_data(folder, DataSet.of(data.detections, procedures, data.polyps))
    return folder


def test_shares_divide_no_patient_and_depend_on_the_seed(tmp_path: Path) -> None:
    folder = two_procedures_per_patient(tmp_path)
    splits = []
    for seed in ("0", "0", "1", "2"):
        options = ("--shares", "train=0.5,eval=0.25,test=0.25", "--seed", seed)
        succeed("split", folder, *options)
        splits.append(read_data(folder).splits)
    assert [len(ids) for ids in splits[0].values()] == [4, 2, 2]
    assert splits[0] == splits[1]
    assert len({str(split) for split in splits}) > 1
    findings = printed_json("doctor", folder, "--no-images")
    assert not [f for f in findings if f["check"] == "patient in two parts"]
    assert "replaced the parts train, eval, test" in polyplink("split", folder).stderr
    all_parts = printed_json("prepare", folder, "--part", "all", "--no-crops")
    assert all_parts["procedures"] == 8


def test_lists_with_overlaps_or_unknown_procedures_are_refused(tmp_path: Path) -> None:
    folder, lists = two_procedures_per_patient(tmp_path), tmp_path / "lists.json"
    first, second, third, *_ = read_data(folder).part("all")
    for content, message in (
        ({"train": [first], "test": [second]}, "/p0 is in test and in train"),
        ({"train": [first], "test": [first]}, f"procedure {first} is in test and in train"),
        ({"train": ["nobody"]}, "part train names 'nobody'"),
        ([first], "is not a mapping of parts"),
        ({"train": [first, second], "all": [third]}, "'all' names all procedures"),
        ({"rc27": [first]}, "'rc27' names a published part"),
        ({"": [first]}, "'' is not a valid name of a part"),
    ):
        lists.write_text(json.dumps(content))
        assert_refused(polyplink("split", folder, "--lists", lists), message)
    refused = polyplink("split", folder, "--shares", "train=0.5,all=0.5")
    assert_refused(refused, "--shares: 'all' names all procedures")
    lists.write_text(json.dumps({"train": [first, second], "test": [third]}))
    succeed("split", folder, "--lists", lists)
    assert read_data(folder).part("test") == [third]
