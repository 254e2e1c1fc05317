"""The steps of `reproduce --dry-run`, compared with a count by hand."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from polyplink.data.tables import read_data, write_data
from polyplink.recipes.by_name import override
from polyplink_lab.cli.reproduce import reproduce
from polyplink_lab.reproduce import reproduction, reproduction_plan
from polyplink_lab.reproduce.encoders_under_test import Workspace, run_folder, stand_in_recipe
from polyplink_lab.reproduce.published_tables import published_tables
from polyplink_lab.reproduce.reproduction import ReproductionSettings, plan
from polyplink_lab.reproduce.reproduction_plan import Step, cost
from tests.cli.calls import polyplink, printed_json
from tests.cli.labelled_polyps import write_labelled

RATE = 1e9  # multiply-accumulates per second


@pytest.fixture(autouse=True)
def _known_machine(empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction_plan, "measured_rate", lambda device: RATE)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six training procedures and six evaluated ones."""
    folder = write_labelled(tmp_path_factory.mktemp("planned"), procedures=12)
    data = read_data(folder)
    names = data.part(None)
    write_data(folder, replace(data, splits={"train": names[:6], "eval": names[6:]}))
    return folder


def settings(data: Path, tmp_path: Path) -> ReproductionSettings:
    workspace = Workspace(
        tmp_path / "w", data, stand_in=True, sets=("part=train",), device="cpu", workers=1
    )
    return ReproductionSettings(workspace, part="eval", grid="demo")


def test_steps_equal_a_count_by_hand_and_nothing_is_run(labelled: Path, tmp_path: Path) -> None:
    plan_settings = settings(labelled, tmp_path)
    steps = {step.what: step for step in plan(plan_settings, [published_tables()["ntssl/2"]]).value}
    trained = [what for what in steps if what.startswith("train ")]
    names = ("nearest", "fixed", "", "frame", "tracklet")
    assert trained == [f"train ntssl{'-' if name else ''}{name}-small" for name in names]
    # Six procedures, two polyps each, two views of 32 frames each; 8 crops per view.
    views = 6 * 2 * 2
    recipe = stand_in_recipe("ntssl")
    assert recipe is not None
    cutting = next(step for what, step in steps.items() if what.startswith("cut crops, psi 1.3"))
    assert cutting.settings.startswith(f"{views * 8} crops of 6 procedures")
    assert not [what for what in steps if "psi 5" in what]  # stand-ins keep their crop factor
    assert cutting.disk == 3 * views * 8 * recipe.prepare.size**2
    network_cost = cost(recipe.encoder, recipe.prepare.size)
    fragments = views * 8 // recipe.fragment_length
    frames = fragments * (1 + 4) * recipe.fragment_length  # a bag is an anchor and four others
    step = steps["train ntssl-small"]
    assert step.state == "to do"
    assert step.seconds == pytest.approx(
        recipe.optim.epochs * frames * 3 * network_cost.macs / RATE
    )
    # Tables of the same vectors are one step, with the figures of all tables.
    tables = [
        published_tables()["thesis/5.1"],
        published_tables()["thesis/5.6"],
        published_tables()["thesis/5.11"],
    ]
    steps_of_tables = {step.what: step for step in plan(plan_settings, tables).value}
    cells = [
        c for t in tables for c in t.cells if (c.subject, c.crop, c.clip) == ("endofm", 5, None)
    ]
    assert len({cell.measure for cell in cells}) > len({c.measure for c in tables[0].cells})
    measuring = steps_of_tables["embed and measure endofm, psi 5, whole tracklets"]
    assert measuring.settings == f"grid demo, {len({cell.measure for cell in cells})} figures"
    assert not (tmp_path / "w").exists()
    assert not (labelled / "prepared").exists()


def test_existing_runs_are_done_and_missing_files_have_a_reason(
    labelled: Path, tmp_path: Path
) -> None:
    recipe = stand_in_recipe("ntssl")
    assert recipe is not None
    plan_settings = settings(labelled, tmp_path)

    run = run_folder(
        Workspace(tmp_path / "w", labelled, stand_in=True),
        override(recipe, plan_settings.workspace.sets),
    )
    run.mkdir(parents=True)
    (run / "weights.safetensors").touch()
    steps = reproduce(
        "ntssl/2",
        labelled,
        workspace=tmp_path / "w",
        part="eval",
        stand_in=True,
        grid="demo",
        sets=["part=train"],
        device="cpu",
        workers=1,
        dry_run=True,
    ).value
    assert isinstance(steps, list)
    assert all(isinstance(step, Step) for step in steps)
    states = {step.what: step.state for step in steps if isinstance(step, Step)}
    assert states["train ntssl-small"] == "done"
    assert states["train ntssl-frame-small"] == "to do"
    command = ("reproduce", "ntssl/1", labelled, "--only", "ntssl", "--only", "endovit", "--part",
             "eval", "--dry-run", "--device", "cpu", "--grid", "demo")  # fmt: skip
    listed = printed_json(*command)
    reasons = {step["what"]: step["why"] for step in listed if step["state"] == "missing"}
    assert "ntssl trains on rc27: rc27 consists of 27 procedures" in reasons["encoder ntssl"]
    assert "--set part=NAME" in reasons["encoder ntssl"]
    assert "weights" in reasons["encoder endovit"]
    waiting = [step["what"] for step in listed if step["state"] == "waits"]  # with a known cost
    assert waiting[1] == "embed and measure endovit, psi 5, whole tracklets"
    assert all(step["seconds"] > 0 for step in listed if step["state"] == "waits")
    text = polyplink(*command).stdout
    assert "0 steps to do" in text
    assert "free)" in text
    assert f"{len(waiting)} wait for missing files: about " in " ".join(text.split())
    assert "measured on an AMD EPYC" in " ".join(text.split())


def test_a_probe_on_a_published_pair_of_parts_that_will_be_refused_is_missing(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = read_data(labelled)
    sides = {"rsp-train": data.part("train"), "rsp-test": data.part("eval")}
    polyps = data.polyps.with_columns(size_mm=pl.lit(2.0, pl.Float32))
    write_data(tmp_path / "d", replace(data, splits={**data.splits, **sides}, polyps=polyps))
    monkeypatch.setattr(reproduction, "task_part", lambda task, data, part: "rsp")
    steps = plan(settings(tmp_path / "d", tmp_path), [published_tables()["ntssl/2"]]).value
    probes = [step for step in steps if step.what.startswith("probe size of ")]
    assert probes
    assert all("are not of both classes" in step.why for step in probes)
