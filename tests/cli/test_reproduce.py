"""`reproduce`: published tables beside computed ones."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.catalogue import FOUNDATION
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import Seen, save_weights
from polyplink.evaluate.intervals import Figure, draw_weights, resampled_mean
from polyplink.evaluate.samples import Samples
from polyplink_lab.cli.reproduce import reproduce
from polyplink_lab.reproduce import reproduction
from polyplink_lab.reproduce.crop_variants import named_figures
from polyplink_lab.reproduce.encoders_under_test import Workspace, has_recipe, untrained_stand_in
from polyplink_lab.reproduce.published_tables import (
    PUBLISHED_MAP,
    PublishedTable,
    published_tables,
    with_learned_links,
)
from polyplink_lab.reproduce.reproduced_table import ReproducedTable, best_cells
from polyplink_lab.reproduce.reproduction import find_part, incomparable, similarity_form, task_part
from polyplink_lab.reproduce.reproduction_plan import Step
from polyplink_lab.reproduce.standing import STANDINGS
from tests.cli.calls import polyplink, printed_json, succeed
from tests.cli.labelled_polyps import write_labelled
from tests.conftest import SampleRun
from tests.data.test_protocols import OTHERS, tables
from tests.samples import write_procedures

pytestmark = pytest.mark.usefixtures("empty_store")
Run = Callable[..., ReproducedTable]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("reproduced"), procedures=6)


@pytest.fixture
def small(labelled: Path, tmp_path: Path) -> dict[str, Any]:
    """Options of `reproduce` on small labelled data, without training."""
    small: dict[str, Any] = {"data": labelled, "workspace": tmp_path, "part": "eval"}
    return small | {"grid": "demo", "train": False, "device": "cpu", "workers": 1}


@pytest.fixture
def run(small: dict[str, Any], tmp_path: Path) -> Run:
    """A function that reproduces a table on small labelled data."""

    def call(table: str, **changes: Any) -> ReproducedTable:
        outcome = reproduce(table, **(small | {"out": tmp_path / "out", "seeds": 1} | changes))
        assert isinstance(outcome.value, ReproducedTable)
        return outcome.value

    return call


def test_computed_figures_are_beside_published_ones_and_others_have_a_reason(
    sample_run: SampleRun, run: Run, tmp_path: Path
) -> None:
    result = run("ntssl/1", only=["ntssl", "endovit"], weights=[f"ntssl={sample_run.run}"])
    cells = {(c.row, c.column): c for c in result.cells}
    ours = cells["Ours", "mAP"]
    assert ours.published == "63.13"
    assert ours.ours.value is not None
    assert 0.0 < ours.ours.value <= 100.0
    assert ours.ours.low is not None
    assert ours.ours.n == 6
    assert cells["Ours", "F1-Score"].units_of == "polyps"
    # Costs need no weights and are comparable on any data.
    params, macs = cells["Ours", "Params"], cells["Ours", "FLOPs"]
    assert params.ours.value == pytest.approx(26.5, abs=0.05)
    assert params.remark.startswith("26.40 M without projectors and unused heads; the stated sizes")
    assert cells["SFE", "Params"].remark == ""  # it is about our number, which is left out
    assert macs.ours.value == pytest.approx(33.1, abs=0.05)
    assert macs.difference == pytest.approx(0.0, abs=0.05)
    assert cells["EndoViT", "Params"].ours.value == pytest.approx(86.6, abs=0.05)
    assert ours.difference is None
    assert cells["EndoViT", "mAP"].ours.value is None
    assert "weights" in cells["EndoViT", "mAP"].ours.why
    assert cells["SFE", "mAP"].ours.why == "left out by --only"
    # This mAP is computed like the program's, in addition to the exact one.
    published_map = cells["Ours", PUBLISHED_MAP]
    assert (published_map.published, published_map.ours.is_defined) == ("63.13", True)
    assert result.settings.endswith("reference; visual similarity: raw_l2; times: normalised.")
    assert {similarity_form(name) for name in published_tables() if "thesis" in name} == {"sigmoid"}
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["run.json", "table.csv", "table.html", "table.json", "table.tex"]
    assert read_json(tmp_path / "out" / "table.json")["name"] == "ntssl/1"


def test_only_the_chosen_columns_are_computed(run: Run, tmp_path: Path) -> None:
    result = run("ntssl/1", only=["endovit"], columns=["Params", "FLOPs"])
    assert {cell.column for cell in result.cells} == {"Params", "FLOPs"}
    assert {c.row for c in result.cells if c.ours.is_defined} == {"EndoViT"}
    for name in ("table.html", "table.tex", "table.csv"):
        text = (tmp_path / "out" / name).read_text()
        assert "Params" in text
        assert "mAP" not in text
    (mean,) = {c.column for c in run("ntssl/1", only=["endovit"], columns=[PUBLISHED_MAP]).cells}
    assert mean == PUBLISHED_MAP
    with pytest.raises(PolyplinkError, match=r"ntssl/1 has no column 'mpa'; choose among .*mAP"):
        run("ntssl/1", columns=["mpa"])
    with pytest.raises(PolyplinkError, match="no cell in the columns Params"):
        run("all", only=["none"], columns=["Params"])


def test_differences_are_shown_only_for_comparable_figures(run: Run, sample_run: SampleRun) -> None:
    on_eval = run("ta/1", only=["none"])
    assert on_eval.incomparable == "the part eval, not rc19"
    assert all(cell.difference is None for cell in on_eval.cells)
    fr = on_eval.cells[0]
    assert (fr.row, fr.ours.value) == ("No clustering", 2.0)  # two tracklets per polyp
    weights = [f"ta384-temporally-aware={sample_run.run}"]
    ours = run("ta/1", only=["ta384-temporally-aware"], weights=weights, anyway=True)
    added_row = [cell for cell in ours.cells if cell.row == "Ours, learned links of polyplink"]
    assert [cell.column for cell in added_row] == ["FR", "FPR"]
    assert [cell.published_words for cell in added_row] == ["–", "–"]
    assert [cell.difference for cell in added_row] == [None, None]  # the paper has no such row
    assert all(cell.ours.is_defined or cell.ours.why for cell in added_row)
    in_frames = run("ta/1", only=["ta384-temporally-aware"], weights=weights, time="frames")
    assert in_frames.settings.endswith("times: frames.")
    assert [cell.ours for cell in in_frames.cells] != [cell.ours for cell in ours.cells]
    anyway = run("ta/1", only=["none"], anyway=True)
    assert anyway.cells[0].difference == pytest.approx(2.0 - 20.74)
    assert "nevertheless" in anyway.banner


def test_incomparable_data_are_named(labelled: Path) -> None:
    data = read_data(labelled)
    simulated = data.procedures.with_columns(dataset=pl.lit("simulated smoke 0"))
    plain, divided = published_tables()["thesis/5.3"], published_tables()["thesis/5.11"]
    assert incomparable(replace(data, procedures=simulated), "rc19", plain, stand_in=True) == (
        "SIMULATED data, stand-in encoders"
    )
    assert incomparable(data, "rc19", plain, stand_in=False) == ""
    assert incomparable(data, "rc19", divided, stand_in=False) == (
        "TPC's parts tpc-val and tpc-test, not the thesis's"
    )
    assert find_part(data, None) == "eval"


@pytest.mark.slow
def test_stand_ins_fill_a_table_and_are_marked(run: Run, labelled: Path, tmp_path: Path) -> None:
    result = run("thesis/5.3", stand_in=True, train=True)
    assert {cell.stand_in for cell in result.cells} == {"an untrained network"}
    assert all(row.endswith(" (stand-in)") for _, row, _ in result.rows)
    for file in ("table.html", "table.tex", "table.csv"):
        assert "an untrained network" in (tmp_path / "out" / file).read_text()
    cost = next(c for c in published_tables()["ntssl/1"].cells if c.measure == "cost/parameters")
    workspace = Workspace(tmp_path, labelled, stand_in=True, device="cpu")
    ours = reproduction._reproduced_cell(
        cost, Figure(1e6), True, False, untrained_stand_in(cost.subject, workspace)
    )
    assert ours.stand_in == ""  # costs are those of the named network
    assert result.computed == len(result.cells) == 12
    assert any(cell.best for cell in result.cells)
    crop_factors = [
        read_json(path)["settings"]["crop_factor"] for path in labelled.glob("prepared/*/run.json")
    ]
    assert {1.0, 2.0, 3.0, 5.0, 10.0, None} <= set(crop_factors)  # all crop factors were cut


@pytest.mark.slow
def test_a_checkpoint_chosen_on_the_evaluation_is_refused_or_marked(
    run: Run, small: dict[str, Any], labelled: Path, tmp_path: Path
) -> None:
    data = read_data(labelled)
    names = data.part(None)
    splits = {"train": names[:3], "eval": names[3:], "half": names[3:4]}
    shutil.copytree(labelled, tmp_path / "data")
    write_data(tmp_path / "data", replace(data, splits=splits))
    sets = ["part=train", "validation.part=half", "optim.epochs=1"]
    options: dict[str, Any] = {
        "data": tmp_path / "data", "only": ["ntssl-frame"], "stand_in": True, "train": True,
        "sets": sets,
    }  # fmt: skip
    refused = run("ntssl/2", **options)
    assert refused.computed == 0
    assert not (tmp_path / "runs").exists()  # refused before training
    (reason,) = {cell.ours.why for cell in refused.cells if "--only" not in cell.ours.why}
    assert "would be trained or validated on 1 of the procedures of the part eval" in reason
    assert "give --as-published" in reason
    dry_run = small | options | {"dry_run": True}
    planned = reproduce("ntssl/2", **dry_run).value
    assert isinstance(planned, list)
    (step,) = (step for step in planned if isinstance(step, Step))
    assert (step.what, step.state) == ("encoder ntssl-frame", "refused")
    assert step.why == reason
    allowed = reproduce("ntssl/2", as_published=True, **dry_run).value
    assert isinstance(allowed, list)
    assert step not in allowed
    ours = run("ntssl/2", as_published=True, **options)
    assert ours.computed > 0
    for cell in ours.cells:
        chosen = "as published: its checkpoint was chosen on 1 of the evaluated procedures"
        assert (cell.ours.why == "left out by --only") != cell.remark.startswith(chosen)
        if cell.remark:
            assert "ntssl-frame-small" in cell.stand_in
    on_trained = run("ntssl/2", as_published=True, **options | {"sets": ["part=eval", *sets[2:]]})
    assert on_trained.computed == 0  # training on evaluated procedures is always refused


def test_size_and_histology_use_lists_of_polyps(
    run: Run, sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    names = read_data(labelled).polyps["polyp_id"].to_list()
    lists, other = tmp_path / "lists.json", tmp_path / "other.json"
    lists.write_text(json.dumps({"train": names[:4], "test": names[4:]}))
    other.write_text(json.dumps({"train": names[4:], "test": names[:4]}))
    options: dict[str, Any] = {"only": ["ntssl"], "weights": [f"ntssl={sample_run.run}"]}
    options["columns"] = ["F1-Score", "Acc"]
    result = run("ntssl/2", split=[str(lists), f"histology={other}"], **options)
    assert f"Polyps of size: {lists}. Polyps of histology: {other}." in result.settings
    tested = {cell.column: cell.ours.n for cell in result.cells if cell.units_of == "polyps"}
    assert tested == {"F1-Score": len(names) - 4, "Acc": 4}
    with pytest.raises(PolyplinkError, match="does not divide polyps"):
        run("ntssl/2", split=[f"size={sample_run.run / 'run.json'}"], **options)
    ntssl = f"ntssl={sample_run.run}"
    command = ("reproduce", "ntssl/2", labelled, "--part", "eval", "--only", "ntssl", "--dry-run",
               "--weights", ntssl, "--split", lists, "--device", "cpu")  # fmt: skip
    steps = printed_json(*command)
    assert {"split of size", "split of histology", "eval"} == {step["part"] for step in steps}


def test_an_encoder_trained_on_polyps_of_a_probe_is_refused(
    run: Run, sample_run: SampleRun, tmp_path: Path
) -> None:
    procedures, polyps = tables(OTHERS)
    boxes = polyps.select("procedure_id", "polyp_id", frame=0, x=0.0, y=0.0, w=9.0, h=9.0)
    video: dict[str, Any] = {"n_frames": 9, "fps": 25.0, "width": 64, "height": 64, "source": "."}
    procedures = procedures.with_columns(**{name: pl.lit(v) for name, v in video.items()})
    polyps = polyps.with_columns(size_mm=pl.int_range(pl.len()).cast(pl.Float64) % 9)
    write_data(tmp_path / "data", DataSet.of(boxes, procedures, polyps))
    loaded = load_encoder(sample_run.run, torch.device("cpu"))
    seen = Seen("", [("sun", f"sun{k}", f"sun{k}") for k in range(100)], [])
    save_weights(tmp_path / "sun.safetensors", loaded.encoder, replace(loaded.record, seen=seen))
    result = run(
        "ntssl/2",
        data=tmp_path / "data",
        part="rc19",
        only=["ntssl"],
        columns=["F1-Score"],
        weights=[f"ntssl={tmp_path / 'sun.safetensors'}"],
    )
    reasons = {cell.ours.why for cell in result.cells} - {"left out by --only"}
    assert all("trained or validated on 100 of these procedures" in why for why in reasons)
    assert reasons


def test_accuracy_in_batches_is_computed_and_names_its_part(run: Run, labelled: Path) -> None:
    result = run("thesis/5.11", only=["endofm-supervised"], stand_in=True, train=True)
    assert (result.computed, len(result.cells)) == (4, 12)
    assert result.cells[0].units_of == "polyps"
    assert (
        "division of rc19 (tpc-val and tpc-test), or both the part named" in result.cells[0].remark
    )
    by_column = {cell.column: cell.ours.value for cell in result.cells if cell.ours.is_defined}
    assert by_column["Val Top-1"] == by_column["Test Top-1"]  # the same part
    data = read_data(labelled)
    parts = [task_part(task, data, "rc19") for task in ("val", "test", "size", "mAP")]
    assert parts == ["tpc-val", "tpc-test", "rsp", "rc19"]
    # Batches have 16 views of 8 polyps: a random encoder is right in k of 15 cases.
    polyps = [f"p{i // 20}" for i in range(400)]
    ids, procedures, times = [f"f{i}" for i in range(400)], ["a"] * 400, np.zeros(400)
    samples = Samples.of(ids, procedures, polyps, times)
    figures = ("top-1", "top-5")
    random = named_figures(figures, np.random.default_rng(0).normal(size=(400, 32)), samples)
    accuracies = [random[name][0].value for name in figures]
    assert accuracies == pytest.approx([1 / 15, 5 / 15], abs=0.02)
    perfect = named_figures(figures, np.eye(20)[samples.polyp], samples)
    assert [perfect[name][0] for name in figures] == [Figure(1.0, n=20)] * 2
    single = Samples.of(ids[:20], procedures[:20], polyps[:20], times[:20])
    (reason,) = {figure.why for figure, _ in named_figures(figures, np.eye(20), single).values()}
    assert "needs two polyps with two fragments" in reason


def test_data_without_the_part_or_its_labels_are_refused(
    run: Run, labelled: Path, tmp_path: Path
) -> None:
    write_data(tmp_path / "d", replace(read_data(labelled), splits={}))
    unlabelled = write_procedures(tmp_path / "u", procedures=2, labelled=False, images=False)
    for changes, message in (
        ({"data": tmp_path / "d", "part": None}, "no part 'eval'"),
        ({"data": unlabelled}, "polyp_id is empty in the part 'eval', and ntssl/1 needs"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            run("ntssl/1", **changes)


def test_best_cells_are_those_without_a_significant_paired_difference() -> None:
    rng = np.random.default_rng(0)
    weights = draw_weights(19, resamples=2000)
    quality = {"a": 0.9, "b": 0.89, "c": 0.4}  # mean of each over 19 procedures
    noise = rng.normal(0, 0.2, 19)  # equal for all, so that the comparison must be paired
    values = {name: q + noise + rng.normal(0, 0.05, 19) for name, q in quality.items()}
    ours = [resampled_mean(values[name], np.ones(19), weights) for name in quality]
    cell = published_tables()["ntssl/2"].cells[0]
    cells = [replace(cell, group="g", subject=name) for name in quality]
    naive = {0, 1, 2} - {
        i
        for i, name in enumerate(quality)
        if np.percentile(weights @ (values["a"] - values[name]), 2.5) > 0
    }
    assert best_cells(cells, ours) == naive == {0, 1}
    assert best_cells(cells, [ours[0], None, None]) == set()
    # With one encoder in two groups, each group has its best cell.
    two_groups = [replace(cell, group=group, subject=s) for group, s in ("ga", "ha", "hb")]
    assert best_cells(two_groups, ours) == {1}


def test_counting_tables_have_an_added_row_of_learned_links() -> None:
    for name in ("ta/1", "ta/3", "thesis/5.14"):
        cells = list(with_learned_links(published_tables()[name].cells))
        added_row = [cell for cell in cells if cell.measure.startswith("links/")]
        assert len(added_row) == len(cells) - len(published_tables()[name].cells) > 0
        assert {cell.text for cell in added_row} == {""}
        assert len({(cell.row, cell.subject) for cell in added_row}) == 1
        before = cells[cells.index(added_row[0]) - 1]
        assert (before.group, before.subject) == (added_row[0].group, added_row[0].subject)
        assert added_row[0].row == f"{before.row}, learned links of polyplink"
    other_cells = published_tables()["ntssl/1"].cells
    assert tuple(with_learned_links(other_cells)) == other_cells


def test_all_tables_are_computed_once_in_the_order_of_trainings(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    table_of = reproduction.reproduce_table

    def record_table(settings: Any, table: PublishedTable, out: Path, progress: Progress) -> Any:
        computed.append(table.name)
        return table_of(settings, table, out, progress)

    monkeypatch.setattr(reproduction, "reproduce_table", record_table)
    options = small | {"only": ["none", "endofm-supervised"]}
    rows: Any = reproduce("all", **options).value
    assert [row["table"] for row in rows] == computed
    assert {"ta/1", "thesis/5.12", "thesis/5.14", "thesis/A.19"} <= set(computed)
    n_trainings = [sum(map(has_recipe, published_tables()[name].subjects)) for name in computed]
    assert n_trainings == sorted(n_trainings)
    row_of_table = next(row for row in rows if row["table"] == "ta/1")
    assert (row_of_table["computed"], row_of_table["cells"]) == (2, 12)
    assert (tmp_path / "ta" / "1" / "table.html").is_file()
    computed.clear()
    assert reproduce("all", **options).value == rows
    assert computed == []  # all tables exist
    monkeypatch.setattr(reproduction, "what_is_missing", lambda *_: "")  # its weights were added
    reproduce("all", **options)
    assert computed == [
        row["table"]
        for row in rows
        if "endofm-supervised" in published_tables()[row["table"]].subjects
    ]
    computed.clear()
    reproduce("all", **options, seeds=1)
    assert computed  # other settings are computed


def test_a_table_is_computed_again_if_the_weights_file_has_other_content(
    sample_run: SampleRun, small: dict[str, Any], tmp_path: Path
) -> None:
    weights = shutil.copytree(sample_run.run, tmp_path / "mine")
    options = small | {"only": ["ntssl"], "columns": ["mAP"], "weights": [f"ntssl={weights}"]}
    before: Any = reproduce("all", **options).value
    written = tmp_path / "ntssl" / "1" / "table.json"
    first = written.stat().st_mtime_ns
    reproduce("all", **options)
    assert written.stat().st_mtime_ns == first
    file = weights / "weights.safetensors"
    tensors = {name: 2 * tensor for name, tensor in load_file(file).items()}
    with safe_open(file, "pt") as opened:
        save_file(tensors, file, opened.metadata())
    after: Any = reproduce("all", **options).value
    assert [row["table"] for row in after] == [row["table"] for row in before]
    assert written.stat().st_mtime_ns > first


def test_a_table_with_a_failed_cell_is_computed_again(
    sample_run: SampleRun, small: dict[str, Any], tmp_path: Path
) -> None:
    data, weights = write_labelled(tmp_path, procedures=2), [f"ntssl={sample_run.run}"]
    options = small | {"data": data, "only": ["ntssl"], "columns": ["mAP"], "weights": weights}
    (tmp_path / "frames").rename(tmp_path / "away")
    failed: Any = reproduce("all", **options).value
    assert {row["computed"] for row in failed} == {0}
    (tmp_path / "away").rename(tmp_path / "frames")
    computed: Any = reproduce("all", **options).value
    assert all(row["computed"] for row in computed)


def test_reproduce_prints_a_table_or_json(sample_run: SampleRun, tmp_path: Path) -> None:
    options = ("--workspace", tmp_path, "--part", "eval", "--grid", "demo", "--workers", "1")
    command = ("reproduce", "ta/1", sample_run.data, *options, "--only", "none", "--device", "cpu")
    result = succeed(*command)
    assert "not comparable with the paper" in result.stdout
    assert (tmp_path / "ta" / "1" / "table.html").is_file()
    assert printed_json(*command)["name"] == "ta/1"


def test_list_names_the_requirements_of_every_table() -> None:
    listed = printed_json("reproduce", "list")
    states = {state["name"]: state for state in listed}
    assert list(states) == list(published_tables())
    assert len(listed) == len(states) == 48
    state_of_table = states["ntssl/1"]
    assert state_of_table["cells"] == 162
    assert {c["standing"] for c in state_of_table["standing"] if c["column"] == "Params"} == {
        "exact"
    }
    assert state_of_table["runs"] == "not"  # without weights and backbone
    assert "backbone" in state_of_table["missing"]["ntssl"]
    assert "ntssl" in state_of_table["recipes"]
    assert "dinov2-s" in state_of_table["weights"]
    assert "; " in state_of_table["missing"]["dinov2-s"]  # what is missing, and how to fix it
    assert states["ta/1"]["runs"] == "in part"  # one row needs no encoder
    assert "ta384-tpc" in states["ta/1"]["recipes"]
    weights = [name for state in states.values() for name in state["weights"]]
    assert set(weights) <= set(FOUNDATION)  # weights without a recipe can be added by name
    cells = set()  # each cell of the papers once
    for state in listed:
        standing = [cell["standing"] for cell in state["standing"]]
        assert state["cells"] == len(standing)
        assert state["standings"] == {name: standing.count(name) for name in STANDINGS}
        keys = ("group", "row", "column")
        cells |= {(state["name"], *(cell[key] for key in keys)) for cell in state["standing"]}
    assert len(cells) == 1128 == sum(state["cells"] for state in listed)
    assert "thesis/A.20" in polyplink("reproduce", "list").stdout
