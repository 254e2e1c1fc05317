"""Recipes and losses from a file, and the list of settings of a recipe."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.learn.model import loss_of
from polyplink.recipes.by_name import find_recipe, override
from polyplink_lab.reproduce.encoders_under_test import Workspace, run_folder
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.conftest import TINY, SampleRun

RECIPE = """
from dataclasses import dataclass, field, replace
from typing import Literal

from polyplink.learn.contrastive import Views
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.ntssl import ntssl_demo


@dataclass(frozen=True)
class Spread:
    kind: Literal["spread"] = "spread"
    least: float = 0.5

    def __call__(self, views: Views):
        return (self.least - views.tracklets.std(dim=0)).relu().mean()


def recipe() -> TrainConfig:
    return replace(ntssl_demo(), name="spread", loss=Spread())
"""


@pytest.fixture
def recipe_file(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / ".pyenv"  # ".py" also begins the name of a folder
    folder.mkdir()
    path = folder / "spread_recipe.py"
    path.write_text(RECIPE)
    yield path
    sys.modules.pop("spread_recipe", None)
    sys.path.remove(str(folder))
    importlib.invalidate_caches()


def test_a_recipe_and_loss_from_a_file_are_trained(
    sample_run: SampleRun, recipe_file: Path, tmp_path: Path
) -> None:
    sets = [f"--set={setting}" for setting in (*TINY, "loss.least=0.25", "optim.epochs=1")]
    out = recipe_file.parent / "run"
    result = succeed(
        "train", f"{recipe_file}:recipe", sample_run.data, "-o", out, "--device=cpu", *sets
    )
    assert "epoch 1 of 1: loss " in result.stderr
    run = json.loads((out / "run.json").read_text())
    assert run["settings"]["loss"] == {"kind": "spread", "least": 0.25}
    assert run["settings"]["optim"]["epochs"] == 1
    changes = [*sets[:-1], "--set=optim.epochs=2", "--resume"]
    succeed("train", recipe_file, sample_run.data, "-o", out, "--device=cpu", *changes)
    assert len((out / "history.csv").read_text().splitlines()) == 1 + 2
    # Another formula with the same fields is another run, for --resume and for a study.
    workspace = Workspace(tmp_path, sample_run.data)
    before = run_folder(workspace, find_recipe(str(recipe_file)))
    recipe_file.write_text(RECIPE.replace(".mean()", ".sum()"))
    assert run_folder(workspace, find_recipe(str(recipe_file))) != before
    again = polyplink("train", recipe_file, sample_run.data, "-o", out, "--device=cpu", *changes)
    assert_refused(again, f"holds a run with another {recipe_file.name}; resume with the file as")
    assert override(find_recipe(str(recipe_file)), ["loss.least=1"]).loss.least == 1.0


def test_mistakes_in_recipe_files_are_refused(recipe_file: Path, sample_run: SampleRun) -> None:
    message = "has no recipe 'receipt'; define a function receipt"
    assert_refused(polyplink("train", f"{recipe_file}:receipt", sample_run.data), message)
    assert_refused(
        polyplink("train", recipe_file, sample_run.data, "--set", "loss.lest=1"),
        "did you mean loss.least?",
    )
    broken = recipe_file.parent / "broken_recipe.py"
    unknown = "from polyplink.recipes.by_name import find_recipe\nfind_recipe('ntsll')\n"
    for text, message in (
        ("import nothing_like_that", "No module named 'nothing_like_that'"),
        ("x = 1\nx / 0\n", "ZeroDivisionError: division by zero, line 2)"),
        (unknown, f"{broken}: no recipe 'ntsll'; did you mean ntssl?"),
    ):
        broken.write_text(text)
        assert_refused(polyplink("train", broken, sample_run.data), message)
    json_file = recipe_file.parent / "json.py"
    json_file.write_text("")
    assert_refused(
        polyplink("train", json_file, sample_run.data), "there is another module called json"
    )


def test_a_loss_of_a_file_replaces_that_of_a_recipe(
    recipe_file: Path, sample_run: SampleRun
) -> None:
    changes = [f"loss.kind={recipe_file}:Spread", "loss.least=0.25"]
    assert to_plain(override(find_recipe("ntssl-demo"), changes).loss) == {
        "kind": "spread", "least": 0.25,
    }  # fmt: skip
    with recipe_file.open("a") as file:
        file.write(
            "@dataclass(frozen=True)\nclass Bare(Spread):\n    rate: float = field(kw_only=True)\n"
        )
    for name, message in (
        ("Bare", ":Bare has no default for its field 'rate'; give every field a default"),
        ("Spred", "has no loss 'Spred'"),
        ("recipe", ":recipe is not a dataclass"),
        ("Views", ":Views is not a dataclass with a field `kind`"),
    ):
        kind = f"--set=loss.kind={recipe_file}:{name}"
        assert_refused(polyplink("train", "ntssl-demo", sample_run.data, kind), message)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (".std(dim=0)", ".detach()", "loss 'spread' has no gradient"),
        (".mean()", ".mean() * float('nan')", "start anew in another --out with loss 'spread' cor"),
        ('"spread"\n', '"nt_xent"\n', "has the kind 'nt_xent', and a built-in loss has this name"),
        ("__call__", "forward", "the loss of {}:recipe has no __call__"),
        ("loss=Spread()", "loss=Spread", "is not a dataclass with a field `kind`"),
        ("@dataclass(frozen=True)", "", "is not a dataclass with a field `kind`"),
    ],
)
def test_mistakes_in_a_loss_are_refused(
    recipe_file: Path, sample_run: SampleRun, before: str, after: str, message: str
) -> None:
    recipe_file.write_text(RECIPE.replace(before, after))
    result = polyplink("train", recipe_file, sample_run.data, *_tiny(recipe_file))
    assert_refused(result, message.format(recipe_file))


@pytest.mark.parametrize(
    ("returned", "message"),
    [("views.tracklets", r"a tensor of shape \(6, 4\)"), ("0.5", "'spread' returns 0.5")],
)
def test_a_loss_that_is_not_a_scalar_tensor_is_refused(
    recipe_file: Path, returned: str, message: str
) -> None:
    computed = "(self.least - views.tracklets.std(dim=0)).relu().mean()"
    recipe_file.write_text(RECIPE.replace(computed, returned))
    views: Any = SimpleNamespace(tracklets=torch.ones(6, 4))
    with pytest.raises(PolyplinkError, match=f"{message}, not a scalar tensor"):
        loss_of(find_recipe(str(recipe_file)).loss, views)


def test_a_loss_called_with_the_wrong_arguments_is_named(
    recipe_file: Path, sample_run: SampleRun
) -> None:
    recipe_file.write_text(RECIPE.replace("self, views: Views", "self"))
    result = polyplink("train", recipe_file, sample_run.data, *_tiny(recipe_file))
    assert result.exit_code == 3
    assert "this is a fault of loss 'spread': correct it, the trace is in" in result.stderr


def _tiny(recipe_file: Path) -> list[str]:
    sets = [f"--set={setting}" for setting in (*TINY, "optim.epochs=1")]
    return ["--out", str(recipe_file.parent / "run"), "--device=cpu", *sets]


def test_settings_of_a_recipe_are_listed_with_types() -> None:
    result = succeed("train", "--help-recipe", "ntssl")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]
    by_name = {row[0]: row[1:] for row in rows if row}
    assert by_name["optim.epochs"][:3] == ["int, 1 or more", "50", "program"]
    assert by_name["loss.form"][0] == "symmetric | anchored"
    assert by_name["encoder.frame_weights"][0] == "path | none"
    assert by_name["bags.kind"][0].startswith("temporal | polyp_views | ")
