"""All tasks beside methods that learned nothing."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, read_data, write_data
from polyplink.jobs import embed_data, evaluate
from polyplink.jobs.evaluation import aligned, find_grid
from tests.conftest import Made


def with_eval(made: Made, root: Path, parts: dict[str, list[str]], drop: bool = False) -> Path:
    """The same data with other parts, and without labels if asked."""
    data = read_data(made.data)
    detections = data.detections
    if drop:
        detections = detections.with_columns(polyp_id=pl.lit(None, dtype=pl.String))
    write_data(root, DataSet.of(detections, data.procedures, data.polyps, parts))
    return root


def test_figures_of_three_methods_with_intervals(made: Made, tmp_path: Path) -> None:
    # Called another data set, so that all five procedures may be evaluated on.
    data = read_data(made.data)
    other = data.procedures.with_columns(dataset=pl.lit("another"))
    parts = {"eval": [f"001-00{i}" for i in range(1, 6)]}
    write_data(tmp_path / "data", DataSet.of(data.detections, other, data.polyps, parts))
    done = evaluate(
        made.run, tmp_path / "data", tmp_path / "out", grid="demo", curve_csv=True, device="cpu"
    )
    figures = done.as_dict()
    assert set(figures["encoders"]) == {"ntssl-demo", "untrained encoder", "colour histogram"}
    # Plain colours: the histogram finds every polyp again.
    histogram = figures["encoders"]["colour histogram"]["figures"]
    assert histogram["mAP"]["value"] == pytest.approx(1.0)
    assert histogram["mAP"]["n"] == 5
    table = pl.read_csv(tmp_path / "out" / "figures.csv")
    assert set(table["method"]) == set(figures["encoders"])
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text()) == figures
    assert pl.read_csv(tmp_path / "out" / "procedures.csv").height == 15
    assert "colour histogram" in (tmp_path / "out" / "report.html").read_text()
    # Every clip is tracked and scored: the histogram finds every polyp, and loses none.
    tracked = figures["encoders"]["colour histogram"]["figures"]["tracking/threshold/HOTA"]
    assert 0 < tracked["value"] <= 1
    assert tracked["n"] == 5
    queries = pl.read_parquet(tmp_path / "out" / "queries.parquet")
    assert queries.height == 3 * 30
    assert pl.read_parquet(tmp_path / "out" / "assignment.parquet").height == 3 * 2 * 30
    curve = pl.read_parquet(tmp_path / "out" / "curve.parquet")
    assert curve.group_by("method", "clusterer").len()["len"].sort().unique().to_list() == [51, 325]
    # Every setting has its counting and its tracking figures.
    written = pl.read_csv(tmp_path / "out" / "curve.csv", infer_schema_length=None)
    assert (written.columns, written.height) == (curve.columns, curve.height)
    assert {"alpha", "gamma", "preference", "value", "fr", "fpr", "recall"} < set(curve.columns)
    assert {"HOTA", "AssA", "IDF1", "IDSW", "MOTA", "HOTA mean"} < set(curve.columns)
    assert curve["HOTA"].null_count() == 0
    assert curve["HOTA"].is_between(0, 1).all()
    assert (tmp_path / "out/trackeval/gt/mot_challenge/polyplink-eval/001-005/gt/gt.txt").is_file()
    assert "no adenoma map" in " ".join(done.notes) or "no histology" in " ".join(done.notes)


def test_settings_chosen_on_another_part_and_tasks_by_name(made: Made, tmp_path: Path) -> None:
    data = read_data(made.data)
    other = data.procedures.with_columns(dataset=pl.lit("another"))
    names = [f"001-00{i}" for i in range(1, 6)]
    parts = {"val": names[:2], "test": names[2:]}
    write_data(tmp_path / "data", DataSet.of(data.detections, other, data.polyps, parts))
    done = evaluate(
        made.run,
        tmp_path / "data",
        tmp_path / "out",
        part="test",
        choose_on="val",
        grid="demo",
        tasks=["counting"],
        clusterers=["dbscan", "hdbscan", "agglomerative", "ap"],
        with_baselines=False,
        device="cpu",
    )
    ours = done.evaluation.encoders["ntssl-demo"]
    assert list(ours.counting) == ["dbscan", "hdbscan", "agglomerative", "ap"]
    for name, found in ours.counting.items():
        assert [fold.procedure for fold in found.folds] == names[2:], name
        assert len(set(found.settings)) == 1
    assert ours.retrieval is None
    assert not (tmp_path / "out" / "trackeval").exists()
    assert not (tmp_path / "out" / "queries.parquet").exists()
    assert not (tmp_path / "out" / "curve.csv").exists()
    assert "HOTA" not in pl.read_parquet(tmp_path / "out" / "curve.parquet").columns
    with pytest.raises(PolyplinkError, match="is in 'test' and in 'test'"):
        evaluate(made.run, tmp_path / "data", tmp_path / "o", part="test", choose_on="test")


def test_unknown_tasks_and_clusterers_are_named(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no task 'reidd'; did you mean reid"):
        evaluate(made.run, made.data, tmp_path / "a", tasks=["reidd"])
    with pytest.raises(PolyplinkError, match="no clusterer 'kmeans'; choose one of: temporal_ap"):
        evaluate(made.run, made.data, tmp_path / "b", clusterers=["kmeans"])
    with pytest.raises(PolyplinkError, match="no task; name some"):
        evaluate(made.run, made.data, tmp_path / "c", tasks=[])
    assert not list(tmp_path.iterdir())


def test_a_curve_is_of_counting_or_tracking(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"--curve-csv is for counting .*; add --task count"):
        evaluate(made.run, made.data, tmp_path / "out", tasks=["reid"], curve_csv=True)


def test_procedures_that_were_trained_on_are_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="trained or validated on 4 of these procedures"):
        evaluate(made.run, made.data, tmp_path, part="train", device="cpu")
    # A corrected table is another key, but the same procedures.
    data = read_data(made.data)
    corrected = data.polyps.with_columns(size_mm=pl.lit(3.0))
    write_data(
        tmp_path / "data", DataSet.of(data.detections, data.procedures, corrected, data.splits)
    )
    with pytest.raises(PolyplinkError, match="trained or validated on 4 of these procedures"):
        evaluate(made.run, tmp_path / "data", tmp_path, part="train", device="cpu")
    assert not (tmp_path / "data" / "prepared").exists()  # told before anything is cut


def test_what_is_missing_is_named(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no part 'test' in splits\.json"):
        evaluate(made.run, made.data, tmp_path, part="test", device="cpu")
    with pytest.raises(PolyplinkError, match="no grid 'papr'; did you mean paper"):
        find_grid("papr")
    unlabelled = with_eval(made, tmp_path / "none", {"eval": ["001-005"]}, drop=True)
    with pytest.raises(PolyplinkError, match="column polyp_id is empty"):
        evaluate(made.run, unlabelled, tmp_path, device="cpu")


def test_vectors_of_other_crops_or_tracklets_are_refused(made: Made) -> None:
    done = embed_data(made.run, made.data, part="eval", device="cpu", workers=1)
    assert aligned(done.embeddings, done.prepared) is done.embeddings.vectors
    other = replace(done.embeddings, crops_id="another")
    with pytest.raises(PolyplinkError, match="vectors of crops another for crops"):
        aligned(other, done.prepared)
    fewer = replace(done.embeddings, tracklet_ids=done.embeddings.tracklet_ids[1:])
    with pytest.raises(PolyplinkError, match="vectors of 5 tracklets are not those of the 6"):
        aligned(fewer, done.prepared)


def test_one_procedure_says_that_no_setting_can_be_chosen(made: Made, tmp_path: Path) -> None:
    options = {"grid": "demo", "clusterers": ["threshold"], "with_baselines": False}
    done = evaluate(made.run, made.data, tmp_path / "out", device="cpu", **options)  # type: ignore[arg-type]
    figures = done.evaluation.encoders["ntssl-demo"].figures
    assert figures["threshold/FR"].value is None
    assert figures["tracking/threshold/HOTA"].value is None
    assert any(note.startswith("No setting can be chosen") for note in done.notes)
    assert not (tmp_path / "out" / "trackeval").exists()
    assert (tmp_path / "out" / "report.html").is_file()
