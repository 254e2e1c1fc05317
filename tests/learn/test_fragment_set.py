"""Fragments, their pixels and their codes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.held_out import hold_out
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.samples import write_procedures


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = write_procedures(tmp_path_factory.mktemp("fragments"), procedures=3)
    return prepare(folder, PrepareSettings(size=16, crop_factor=2.0))


def test_pixels_equal_the_crops_of_the_prepared_data(prepared: Prepared) -> None:
    names = ["001-003", "001-001"]
    data = FragmentSet(prepared, names, 4, torch.device("cpu"))
    table = prepared.select(names).fragments(4)
    assert len(data) == table.height == 24
    chosen = np.array([17, 2, 2, 23])
    pixels = data.pixels(data.rows[chosen])
    assert pixels.shape == (16, 16, 16, 3)
    assert pixels.dtype == torch.uint8
    rows = table["crop_first"].to_numpy()[:, None] + np.arange(4)
    for place, fragment in enumerate(chosen):
        expected = prepared.crops(table["procedure_id"][int(fragment)])[rows[fragment]]
        assert np.array_equal(pixels[4 * place : 4 * place + 4].numpy(), expected)


def test_codes_and_positions_follow_the_fragment_table(prepared: Prepared) -> None:
    data = FragmentSet(prepared, ["001-001", "001-002"], 4, torch.device("cpu"))
    table = prepared.select(["001-001", "001-002"]).fragments(4)
    assert data.labelled.all()
    assert len(set(data.polyps)) == table["polyp_id"].n_unique() == 4
    assert np.array_equal(data.positions, table["position"].to_numpy())
    pairs = set(zip(table["polyp_id"], data.polyps.tolist(), strict=True))
    assert len(pairs) == 4


def test_fragments_without_labels_are_unknown(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=1, labelled=False)
    prepared = prepare(folder, PrepareSettings(size=16))
    assert not FragmentSet(prepared, ["001-001"], 4, torch.device("cpu")).labelled.any()


@given(st.integers(1, 40), st.integers(0, 10))
def test_hold_out_divides_the_procedures(n: int, every: int) -> None:
    names = [f"{i:03d}" for i in range(n)]
    if every == 1:
        with pytest.raises(PolyplinkError, match="none left for training"):
            hold_out({name: name for name in names}, every)
        return
    rest, held_out = hold_out({name: name for name in names[::-1]}, every)
    assert sorted(rest + held_out) == names
    assert len(held_out) == (n // every if every else 0)


def test_hold_out_keeps_the_procedures_of_a_patient_together() -> None:
    patient_of = {"a1": "a", "b1": "b", "b2": "b", "c1": "c", "d1": "d", "d2": "d"}
    assert hold_out(patient_of, 2) == (["a1", "c1"], ["b1", "b2", "d1", "d2"])
    with pytest.raises(PolyplinkError, match="2 procedures, 2 of them held out: none left"):
        hold_out({"a1": "a", "a2": "a"}, 1)
