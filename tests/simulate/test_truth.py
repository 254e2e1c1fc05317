from pathlib import Path

import numpy as np
import pytest

from polyplink.artefacts import write_json
from polyplink.errors import PolyplinkError
from polyplink.simulate import Preset, smoke
from polyplink.simulate.first_plan import plan_procedure
from polyplink.simulate.picture.polyp import draw_traits
from polyplink.simulate.truth import SITES, draw_record, histology, polyp_id, read_truth, truth_path
from tests.simulate.scenes import Kind


def test_ids_count_from_one() -> None:
    assert polyp_id("001-009", 0) == "001-009_1"


def test_histology_is_that_of_the_traits() -> None:
    for kind in ("AD", "HP"):
        assert histology(draw_traits(np.random.default_rng(0), Kind(5.0, kind), 0.5))[1] == kind


def test_sites_follow_the_withdrawal() -> None:
    plan = plan_procedure(np.random.default_rng(0), smoke(), 4)
    record = draw_record(np.random.default_rng(1), plan)
    sites = [SITES.index(polyp["site"]) for polyp in record["polyps"]]
    assert sites == sorted(sites)
    assert 45 <= record["age"] <= 80


def test_truth_becomes_the_three_tables(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    preset = Preset("own", (("001-008", 1), ("001-009", 2), ("001-010", 0)), 64, 56)
    boxes = {"001-008": [[3, 0, 1, 2, 10, 12]], "001-009": [[0, 1, 5, 6, 7, 8]], "001-010": []}
    for name, polyps in preset.polyps:
        record = draw_record(rng, plan_procedure(rng, smoke(), polyps))
        write_json(truth_path(tmp_path, name), record | {"n_frames": 9, "boxes": boxes[name]})
    data = read_truth(tmp_path, preset, 7)
    assert data.splits == {"train": ["001-008"], "eval": ["001-009"], "negative": ["001-010"]}
    assert data.polyps["polyp_id"].to_list() == ["001-008_1", "001-009_1", "001-009_2"]
    assert data.detections.select("frame", "x", "y", "w", "h", "polyp_id", "image").rows() == [
        (3, 1, 2, 10, 12, "001-008_1", "001-008_frames/001-008_3.jpg"),
        (0, 5, 6, 7, 8, "001-009_2", "001-009_frames/001-009_0.jpg"),
    ]
    assert data.procedures["source"].unique().to_list() == [str(tmp_path)]
    assert data.procedures["n_frames"].to_list() == [9, 9, 9]
    assert set(data.procedures["dataset"]) == {"simulated own 7"}


def test_a_set_without_any_polyp_is_a_set(tmp_path: Path) -> None:
    plan = plan_procedure(np.random.default_rng(0), smoke(), 0)
    record = draw_record(np.random.default_rng(0), plan)
    write_json(truth_path(tmp_path, "001-001"), record | {"n_frames": 5, "boxes": []})
    data = read_truth(tmp_path, Preset("own", (("001-001", 0),), 64, 56), 0)
    assert data.detections.is_empty()
    assert data.polyps.is_empty()
    assert data.splits == {"negative": ["001-001"]}


def test_a_missing_procedure_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"001-001\.json is missing; run the stage"):
        read_truth(tmp_path, smoke(), 0)
