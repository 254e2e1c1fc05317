"""The training loop: learning, exact resumption, selection of weights, and stopping."""

import csv
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.learn.bags import HISTORY, BagSampler, Batch, EpochBags, bags_at
from polyplink.learn.contrastive import Views
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.loop import (
    BEST,
    NOT_VALIDATED,
    Fitted,
    check_selection,
    fit,
    is_best,
    is_over,
    validate,
)
from polyplink.learn.model import Model
from polyplink.learn.soft_targets import SupervisedLoss
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.learn.train_config import LAST, TrainConfig, ValidationConfig
from polyplink.recipes.by_name import find_recipe, override
from polyplink.recipes.ntssl import ntssl, ntssl_demo
from polyplink.tracklets.prepare import Prepared, prepare
from tests.conftest import TINY
from tests.learn.sets import bare_set
from tests.samples import write_procedures

CPU = torch.device("cpu")
SMALL = (
    *TINY,
    "optim.epochs=3",
    "prepare.size=16",
    "bags.k=2",
    "optim.bags_per_batch=4",
    "optim.rate=1e-3",
    "validation.select=labels",
)


def config(*changes: str) -> TrainConfig:
    return override(ntssl_demo(), [*SMALL, *changes])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = write_procedures(tmp_path_factory.mktemp("loop"), views=2)
    return prepare(folder, config().prepare)


@pytest.fixture(scope="module")
def uninterrupted(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Fitted, Path]:
    """A training on one thread without interruption, and its folder."""
    folder, threads = tmp_path_factory.mktemp("whole"), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return fit(config(), prepared, folder, device=CPU), folder
    finally:
        torch.set_num_threads(threads)


class StoppedError(Exception):
    """Raised by a test in place of a kill after an epoch was saved."""


def stop_after(epochs: int) -> object:
    """A progress callback that raises `StoppedError` after a number of epochs."""

    def stop_if_reached(done: int, total: int, row: object) -> None:
        if done == epochs:
            raise StoppedError

    return stop_if_reached


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    prepared: Prepared, uninterrupted: tuple[Fitted, Path], tmp_path: Path
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with pytest.raises(StoppedError):
            fit(config(), prepared, tmp_path / "cut", device=CPU, progress=stop_after(1))  # type: ignore[arg-type]
        resumed = fit(config(), prepared, tmp_path / "cut", device=CPU, resume=True)
    finally:
        torch.set_num_threads(threads)
    assert len(resumed.history) == 3
    for uninterrupted_row, resumed_row in zip(
        uninterrupted[0].history, resumed.history, strict=True
    ):
        assert {k: v for k, v in uninterrupted_row.items() if k != "seconds"} == {
            k: v for k, v in resumed_row.items() if k != "seconds"
        }
    for key, value in uninterrupted[0].encoder.state_dict().items():
        assert torch.equal(value, resumed.encoder.state_dict()[key]), key


def test_the_history_records_the_curriculum_and_both_losses(
    uninterrupted: tuple[Fitted, Path],
) -> None:
    fitted, folder = uninterrupted
    with (folder / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {*HISTORY, "tau"}
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert [float(row["tau"]) for row in rows] == pytest.approx([0.3, 3.225, 9.075])
    for row in rows:
        assert all(math.isfinite(float(value)) for value in row.values())
        assert 0 <= float(row["purity"]) <= 1
    labels = [row["loss_labels"] for row in fitted.history]
    assert fitted.chosen["epoch"] == labels.index(min(labels))
    assert (fitted.train, fitted.held) == (["001-001", "001-002"], ["001-003"])
    assert {p.name for p in folder.iterdir()} == {LAST, BEST, "history.csv"}


def test_training_learns_to_distinguish_uniform_colours(tmp_path: Path) -> None:
    """Many polyps and near neighbours: bags are pure, so both losses fall.

    At a rate of almost 0 they fall to 0.9 and 0.7 of their first values.
    """
    folder = write_procedures(tmp_path, procedures=3, polyps=8)
    prepared = prepare(folder, config().prepare)
    changes = ("optim.epochs=3", "bags.tau_max=0.3", "bags.k=2", "optim.bags_per_batch=8")
    fitted = fit(config(*changes, "validation.every=2"), prepared, tmp_path / "run", device=CPU)
    first, last = fitted.history[0], fitted.history[-1]
    assert last["loss"] < 0.8 * first["loss"]
    assert last["loss_labels"] < 0.65 * first["loss_labels"]


def slow_case(changes: tuple[str, ...]) -> Any:
    """A case that only `make test-all` trains; quick tests cover its loss and its bags."""
    return pytest.param(changes, marks=pytest.mark.slow)


SFE = ("bags.kind=frame_pairs", "loss.kind=nt_xent", "encoder.kind=sfe", "augment.flip=0.5")
MVE = ("bags.kind=tracklet_parts", "loss.kind=nt_xent", "encoder.kind=mve")


@pytest.mark.parametrize(
    "changes",
    [
        slow_case(("bags.sampling=nearest",)),  # also in the test of stopping
        slow_case(("loss.form=anchored",)),
        slow_case(("loss.frame=0", "validation.select=bags")),
        # More members than there are: masked bags.
        ("bags.k=40", "loss.tracklet=0", "loss.within=1", "loss.mask_fragment=true"),
        SFE,
        MVE,
        slow_case(("optim.bags_per_batch=1000",)),
        slow_case(("validation.every=0", "validation.select=last")),  # cli/test_train.py trains it
    ],
)
def test_every_setting_trains_with_a_finite_loss(
    prepared: Prepared, tmp_path: Path, changes: tuple[str, ...]
) -> None:
    fitted = fit(config("optim.epochs=1", *changes), prepared, tmp_path, device=CPU)
    assert math.isfinite(fitted.history[0]["loss"])


@pytest.mark.parametrize(
    "changes",
    [
        ("bags.kind=polyp_views", "bags.views=3", "bags.refill=true", "loss.kind=supervised"),
        slow_case(
            (
                "bags.kind=polyp_views",
                "bags.refill=true",
                "loss.kind=temporally_aware",
                "optim.accumulate=3",
            )
        ),
        slow_case(
            (
                "bags.kind=polyp_views",
                "bags.refill=true",
                "loss.kind=intra_inter",
                "optim.method=adam",
            )
        ),
        slow_case(SFE),
        slow_case(MVE),
        slow_case(("bags.kind=polyp_parts", "loss.kind=nt_xent", "optim.schedule=one_cycle")),
    ],
    ids=lambda changes: changes[0],
)
def test_every_method_trains_and_resumes(
    prepared: Prepared, tmp_path: Path, changes: tuple[str, ...]
) -> None:
    recipe = config("optim.epochs=2", *changes)

    def copy_after_first_epoch(done: int, total: int, row: object) -> None:
        if done == 1:
            shutil.copytree(tmp_path / "whole", tmp_path / "cut")

    uninterrupted = fit(
        recipe, prepared, tmp_path / "whole", device=CPU, progress=copy_after_first_epoch
    )
    assert all(math.isfinite(row["loss"]) and row["frames"] > 0 for row in uninterrupted.history)
    resumed = fit(recipe, prepared, tmp_path / "cut", device=CPU, resume=True)
    assert resumed.history[1]["loss"] == pytest.approx(uninterrupted.history[1]["loss"], rel=1e-4)


@pytest.mark.parametrize("how", ["frozen", "lora"])
def test_fine_tuning_trains_the_selected_part_of_the_backbone(
    prepared: Prepared, tmp_path: Path, how: str
) -> None:
    changes = ("optim.epochs=1", f"finetune.how={how}", "encoder.frame_encoder=timm:test_vit")
    recipe = override(config(*changes), ["optim.rate=1e-2"])
    torch.manual_seed(recipe.seed)
    before = build_encoder(recipe.encoder).state_dict()
    after = fit(recipe, prepared, tmp_path, device=CPU).encoder.state_dict()
    assert after.keys() == before.keys()  # adapters are merged, so weights load like any others
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    changed_backbone = {name for name in changed if name.startswith("backbone.")}
    assert any(name.startswith("adapter") for name in changed)
    assert bool(changed_backbone) == (how == "lora")


def test_no_batch_holds_a_polyp_twice_if_there_are_fewer_polyps_than_asked_for(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[tuple[int, int]]] = []
    compute = SupervisedLoss.__call__

    def recorded(loss: SupervisedLoss, views: Views) -> torch.Tensor:
        batches.append(sorted(set(zip(views.bag.tolist(), views.polyp.tolist(), strict=True))))
        return compute(loss, views)

    monkeypatch.setattr(SupervisedLoss, "__call__", recorded)
    few = ("bags.kind=polyp_views", "bags.views=2", "bags.refill=true", "loss.kind=supervised")
    recipe = config(*few, "optim.bags_per_batch=12", "optim.epochs=1", "validation.select=bags")
    fit(recipe, prepared, tmp_path, device=CPU)
    assert len(batches) > 2
    for pairs in batches:
        polyps = [polyp for _, polyp in pairs]
        assert len(set(polyps)) == len(polyps) > 1


def test_training_stops_when_the_loss_no_longer_falls(prepared: Prepared, tmp_path: Path) -> None:
    changes = ("optim.epochs=9", "optim.rate=1e-12", "validation.patience=1")
    without_change = ("bags.sampling=nearest", "encoder.dropout=0", "validation.select=bags")
    fitted = fit(config(*changes, *without_change), prepared, tmp_path, device=CPU)
    assert len(fitted.history) < 9
    resumed = fit(config(*changes, *without_change), prepared, tmp_path, device=CPU, resume=True)
    assert len(resumed.history) == len(fitted.history)  # resuming trains no further


def test_resuming_another_run_is_refused(
    prepared: Prepared, uninterrupted: tuple[Fitted, Path], tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match=r"no checkpoint .*last\.safetensors"):
        fit(config(), prepared, tmp_path, device=CPU, resume=True)
    shutil.copytree(uninterrupted[1], tmp_path, dirs_exist_ok=True)
    with pytest.raises(
        PolyplinkError, match=r"another recipe: loss.temperature is .* there and 0.2 here"
    ):
        fit(config("loss.temperature=0.2"), prepared, tmp_path, device=CPU, resume=True)
    # Fields that only one of the two losses has are not named: they could not be set.
    with pytest.raises(PolyplinkError, match=r"another recipe: loss.kind is .*--set loss.kind="):
        fit(config("loss.kind=nt_xent"), prepared, tmp_path, device=CPU, resume=True)
    other = replace(prepared, key="other")
    with pytest.raises(PolyplinkError, match="holds a run of other data"):
        fit(config(), other, tmp_path, device=CPU, resume=True)
    extended = fit(config("optim.epochs=4"), prepared, tmp_path, device=CPU, resume=True)
    assert [row["epoch"] for row in extended.history] == [0, 1, 2, 3]
    with pytest.raises(PolyplinkError, match=r"run of 4 epochs, and optim\.epochs is 1"):
        fit(config("optim.epochs=1"), prepared, tmp_path, device=CPU, resume=True)


def test_too_little_data_to_train_or_validate_on_is_refused(
    prepared: Prepared, tmp_path: Path
) -> None:
    for changes, message in (
        (("fragment_length=99",), "0 fragments of 99 crops"),
        (("validation.every=1",), "none left for training"),
        (("validation.every=0",), "no fragments to validate on"),
        (("part=nowhere",), "no part 'nowhere'"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            fit(config(*changes), prepared, tmp_path, device=CPU)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_trains_as_the_cpu_does_to_bf16_precision(prepared: Prepared, tmp_path: Path) -> None:
    on_gpu = fit(config(), prepared, tmp_path / "gpu", device=torch.device("cuda"))
    on_cpu = fit(config(), prepared, tmp_path / "cpu", device=CPU)
    first = (on_gpu.history[0]["loss"], on_cpu.history[0]["loss"])
    assert first[0] == pytest.approx(first[1], rel=0.1)


def rows(*losses: float) -> list[dict[str, float]]:
    return [{"loss_bags": loss, "loss_labels": math.nan} for loss in losses]


def test_the_best_epoch_has_the_lowest_finite_loss() -> None:
    assert is_best(rows(1.0)[0], rows(2.0, 1.5), "bags")
    assert not is_best(rows(1.5)[0], rows(2.0, 1.5), "bags")
    assert not is_best(rows(math.nan)[0], rows(2.0), "bags")
    assert is_best(rows(9.0)[0], rows(1.0), "last")
    assert is_best(dict(NOT_VALIDATED), [], "labels")


def test_training_is_over_after_patience_epochs_without_improvement() -> None:
    config = ValidationConfig(select="bags", patience=2)
    assert not is_over([], config)
    assert not is_over(rows(3.0, 2.0, 2.5), config)
    assert is_over(rows(3.0, 2.0, 2.5, 2.0), config)
    assert not is_over(rows(3.0, 2.0, 2.5, 1.9), config)
    assert not is_over(rows(math.nan, 3.0, 2.0), config)
    assert is_over(rows(2.0, math.nan, math.nan), config)
    assert not is_over(rows(1.0, 2.0, 3.0, 4.0), ValidationConfig(select="bags"))


def test_negatives_of_other_procedures_need_two_procedures(tmp_path: Path) -> None:
    one_procedure = prepare(write_procedures(tmp_path / "one", procedures=1), config().prepare)
    recipe = config("loss.negatives=other_procedures", "validation.every=0", "part=all")
    with pytest.raises(PolyplinkError, match=r"one procedure.*loss\.negatives=all"):
        fit(recipe, one_procedure, tmp_path / "run", device=CPU)
    held_out = bare_set([16, 16], [0, 1])
    for select in ("bags", "labels"):
        recipe = config("loss.negatives=other_procedures", f"validation.select={select}")
        with pytest.raises(PolyplinkError, match=r"validate on are of one procedure"):
            check_selection(recipe, held_out)
        check_selection(recipe, bare_set([16] * 4, [0, 1, 3, 4]))
        check_selection(override(recipe, ["validation.loss=tracklet"]), held_out)


class RandomModel:
    """Replaces a model: returns random vectors and records them.

    Its frames are random too, because the validation loss does not use them.
    """

    config = ntssl()

    def __init__(self) -> None:
        self.module = nn.Identity()
        self.batches: list[tuple[torch.Tensor, list[int]]] = []

    def views(self, data: FragmentSet, drawn: EpochBags, batch: Batch) -> Views:
        assert not self.module.training
        z, zeros = torch.randn(len(batch.bag), 8, dtype=torch.float64), torch.zeros(len(batch.bag))
        self.batches.append((z, batch.bag.tolist()))
        return Views(z, torch.randn(2 * len(z), 8), batch.bag, batch.anchor, *3 * (zeros,))


def test_the_validation_loss_equals_that_of_the_program() -> None:
    """MIL-NCE on tracklet vectors only, in batches of 6 views, 2 of each of 3 polyps."""
    data = bare_set([24] * 6, range(6))
    data.device = CPU
    model = RandomModel()
    row = validate(cast("Model", model), data)
    batches = [(z, bag) for z, bag in model.batches if bag == [0, 0, 1, 1, 2, 2]]
    assert len(batches) == 6
    losses = []
    for z, bag in batches:
        similarities = [
            [math.exp(torch.cosine_similarity(a, b, dim=0) / 0.07) for b in z] for a in z
        ]
        for i, row_similarities in enumerate(similarities):
            match = next(j for j in range(6) if j != i and bag[j] == bag[i])
            losses.append(
                -math.log(row_similarities[match] / (sum(row_similarities) - row_similarities[i]))
            )
    assert row["loss_labels"] == pytest.approx(sum(losses) / len(losses))


MISTAKES: dict[str, tuple[dict[str, Callable[[EpochBags], Any]], str]] = {
    "no bag": ({"bags": lambda drawn: bags_at(drawn.bags, np.arange(0))}, "draws no bag"),
    "few clips": ({"clips": lambda drawn: drawn.clips[:2]}, "a member that is no row of clips"),
    "far clips": ({"clips": lambda drawn: drawn.clips + 10**6}, "a clip with a crop that is none"),
    "floats": ({"clips": lambda drawn: drawn.clips / 2}, "a clip with a crop that is none"),
    "a column": ({"figures": lambda drawn: {"epoch": 7.0}}, "a figure epoch that has the name"),
    "a word": ({"figures": lambda drawn: {"mine": "high"}}, "a figure mine that"),
    "batches": ({"per_batch": lambda drawn: 0}, "batches without a bag"),
}


@dataclass(frozen=True)
class ChangedBags(BagSampler):
    """Temporal bags with one of `MISTAKES`, or with a figure in all epochs but the first."""

    mistake: str | None = None
    kind: str = "changed"

    def draw(self, data: FragmentSet, progress: float, size: int, rng: Any) -> EpochBags:
        drawn = TemporalBags(k=2).draw(data, progress, size, rng)
        if self.mistake is None:
            figures: dict[str, Any] = {"mine": np.float32(progress)} if progress else {}
            return replace(drawn, figures=figures)
        changes, _ = MISTAKES[self.mistake]
        return replace(drawn, **{name: change(drawn) for name, change in changes.items()})


@pytest.mark.parametrize("mistake", MISTAKES)
def test_bags_of_a_sampler_with_a_mistake_are_refused(
    prepared: Prepared, tmp_path: Path, mistake: str
) -> None:
    recipe = replace(config("validation.select=last"), bags=ChangedBags(mistake))
    with pytest.raises(PolyplinkError, match=MISTAKES[mistake][1]):
        fit(recipe, prepared, tmp_path, device=CPU)


def test_a_sampler_may_add_a_figure_in_some_epochs(prepared: Prepared, tmp_path: Path) -> None:
    recipe = config("optim.epochs=2", "validation.select=last")
    fit(replace(recipe, bags=ChangedBags()), prepared, tmp_path, device=CPU)
    with (tmp_path / "history.csv").open() as file:
        assert [row["mine"] for row in csv.DictReader(file)] == ["", "0.5"]


def test_selection_without_a_validation_loss_is_refused() -> None:
    labels = TrainConfig("x")
    with pytest.raises(PolyplinkError, match="no fragments to validate on"):
        check_selection(labels, None)
    with pytest.raises(PolyplinkError, match="needs two held-out polyps"):
        check_selection(labels, bare_set([16], [0]))
    check_selection(labels, bare_set([16, 16], [0, 1]))
    views = override(find_recipe("supervised"), ["validation.select=bags", "bags.views=3"])
    with pytest.raises(PolyplinkError, match=r"fewer than two bags of bags\.kind=polyp"):
        check_selection(views, bare_set([8, 8], [0, 1]))
    check_selection(views, bare_set([12, 12], [0, 1]))
    check_selection(TrainConfig("x", validation=ValidationConfig(select="last")), None)
    with pytest.raises(PolyplinkError, match="patience needs a validation loss"):
        ValidationConfig(select="last", patience=3)
