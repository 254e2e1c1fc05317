"""A training step of encoder and projector, and the learning rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import ENCODERS
from polyplink.learn.bags import Batch, EpochBags, batches, pair_bags, rng_of
from polyplink.learn.contrastive import Views
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.model import Model, one_cycle, views_of_clips
from polyplink.learn.soft_targets import NtXentLoss
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl_demo
from polyplink.tracklets.prepare import prepare
from tests.conftest import TINY
from tests.learn.sets import bare_set
from tests.samples import write_procedures

CPU = torch.device("cpu")


def config(*changes: str) -> TrainConfig:
    return override(
        ntssl_demo(),
        [*TINY, "prepare.size=16", "encoder.dropout=0", "optim.bags_per_batch=4", *changes],
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> FragmentSet:
    folder = write_procedures(tmp_path_factory.mktemp("model"), procedures=3)
    prepared = prepare(folder, config().prepare)
    return FragmentSet(prepared, ["001-001", "001-002"], 4, CPU)


def epoch_of(model: Model, data: FragmentSet) -> tuple[EpochBags, list[Batch]]:
    drawn = model.config.bags.draw(data, 0.0, 4, rng_of(0))
    return drawn, list(batches(drawn.bags, 4, CPU))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def with_frozen_statistics(model: Model) -> Model:
    """Put BatchNorm in evaluation mode, so that batches do not affect each other."""
    for module in model.encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return model


def gradients(model: Model) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.module.parameters() if p.grad is not None]


def test_accumulated_gradients_are_the_mean_over_batches(data: FragmentSet) -> None:
    drawn, parts = epoch_of(Model(config(), CPU), data)
    group_gradients = []
    for group in ([parts[0]], [parts[1]], parts[:2]):
        model = with_frozen_statistics(Model(config(), CPU))
        assert len(model.learn(data, drawn, group, generator())) == len(group)
        group_gradients.append(gradients(model))
    *single, accumulated = group_gradients
    for total, parts_of_total in zip(accumulated, zip(*single, strict=True), strict=True):
        torch.testing.assert_close(total, torch.stack(parts_of_total).mean(0), atol=1e-5, rtol=1e-4)


def test_forward_and_backward_compute_in_the_precision_of_the_recipe(data: FragmentSet) -> None:
    """On a CPU tf32 equals float32 bit for bit, whatever torch is set to; bf16 differs."""
    gradients_by_precision: dict[str, list[torch.Tensor]] = {}
    torch.set_float32_matmul_precision("medium")
    try:
        for name in ("none", "float32", "tf32", "bf16"):
            model = with_frozen_statistics(Model(config(f"optim.precision={name}"), CPU))
            drawn, parts = epoch_of(model, data)
            precisions: list[str] = []
            first = next(iter(model.encoder.parameters()))
            first.register_hook(  # type: ignore[no-untyped-call]
                lambda gradient, s=precisions: s.append(torch.get_float32_matmul_precision())
            )
            model.learn(data, drawn, parts[:1], generator())
            assert precisions == ["medium" if name == "bf16" else "highest"]
            gradients_by_precision[name] = gradients(model)
    finally:
        torch.set_float32_matmul_precision("highest")
    for name in ("float32", "tf32"):
        assert all(map(torch.equal, gradients_by_precision["none"], gradients_by_precision[name]))
    assert not all(map(torch.equal, gradients_by_precision["none"], gradients_by_precision["bf16"]))


def test_augmentation_does_not_depend_on_the_precision_of_the_network(
    data: FragmentSet,
) -> None:
    changes = [f"augment.{name}=0.3" for name in ("flip", "translate", "contrast", "hue")]
    received: dict[str, torch.Tensor] = {}
    for name in ("float32", "bf16"):
        model = Model(config(f"optim.precision={name}", "augment.degrees=20", *changes), CPU)
        drawn, parts = epoch_of(model, data)
        model.network.register_forward_pre_hook(
            lambda _, inputs, name=name: received.update({name: inputs[0]})
        )
        model.views(data, drawn, parts[0], generator())
    assert torch.equal(received["float32"], received["bf16"])


def test_raw_training_normalises_only_after_training(data: FragmentSet) -> None:
    """Training equals that without normalisation; the saved encoder normalises."""
    unnormalised = ["encoder.mean=[0,0,0]", "encoder.std=[1,1,1]"]
    raw_training, raw, normalised = (
        with_frozen_statistics(Model(config(*changes), CPU))
        for changes in (["raw_training=true"], unnormalised, [])
    )
    drawn, parts = epoch_of(normalised, data)
    losses = [m.learn(data, drawn, parts[:1], generator()) for m in (raw_training, raw, normalised)]
    assert losses[0] == losses[1] != losses[2]
    crops = data.pixels(drawn.clips[:1])
    with torch.no_grad():
        assert torch.equal(
            raw_training.encoder(crops, [4]).tracklet, raw.encoder(crops, [4]).tracklet
        )
        evaluation_encoder = raw_training.as_used()
        raw.encoder.load_state_dict(evaluation_encoder.state_dict())
        raw.encoder.keep_pixel_scale((0.45,) * 3, (0.225,) * 3)
        assert torch.equal(
            evaluation_encoder(crops, [4]).tracklet, raw.encoder(crops, [4]).tracklet
        )


class NanEncoder(nn.Module):
    """An encoder that returns NaN for the third tracklet."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, crops: torch.Tensor, lengths: list[int]) -> object:
        tokens = self.encoder(crops, lengths)
        offsets = torch.zeros(len(lengths), 1)
        offsets[2] = math.nan
        return replace(tokens, tracklet=tokens.tracklet + offsets)


def test_a_batch_with_nan_names_its_tracklet_and_takes_no_step(
    data: FragmentSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(config(), CPU)
    drawn, parts = epoch_of(model, data)
    before = [p.clone() for p in model.encoder.parameters()]
    model.network.encoder = NanEncoder(model.encoder)
    row = drawn.clips[parts[1].fragments[2], 0]
    name = data.tracklets.names[data.tracklet_of[row]]
    message = rf"embedding of tracklet {name} is not finite \(1 of the .* --resume continues"
    with pytest.raises(PolyplinkError, match=message):
        model.learn(data, drawn, [parts[1]], generator())
    for old, new in zip(before, model.encoder.parameters(), strict=True):
        assert torch.equal(old, new)
    monkeypatch.setattr(ENCODERS, "_built_in", {})
    with pytest.raises(
        PolyplinkError, match="look at the code of encoder 'transformer', its crops"
    ):
        model.learn(data, drawn, [parts[1]], generator())


class InfiniteLoss(NtXentLoss):
    def __call__(self, views: Views) -> torch.Tensor:
        return super().__call__(views) + math.inf


def test_an_infinite_loss_and_too_little_memory_are_one_line(
    data: FragmentSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(config(), loss=InfiniteLoss())
    model = Model(recipe, CPU)
    drawn, parts = epoch_of(model, data)
    with pytest.raises(PolyplinkError, match=r"the loss is inf .*which has finite embeddings"):
        model.learn(data, drawn, parts[:1], generator())

    def raise_out_of_memory(clips: np.ndarray) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(data, "pixels", raise_out_of_memory)
    with pytest.raises(PolyplinkError, match=r"memory of cpu .* lower optim\.bags_per_batch"):
        model.learn(data, drawn, parts[:1], generator())


def test_views_have_the_labels_of_their_clips() -> None:
    data = bare_set([8, 8, 8], [0, 4, 4], labelled=[True, False, False])
    data.device, data.polyp_positions = CPU, np.linspace(0, 1, 24)
    clips = np.array([[0, 2], [3, 5], [8, 10], [16, 17]])
    (batch,) = batches(pair_bags(np.ones(2, bool)), 2, CPU)
    views = views_of_clips(data, clips, batch, torch.zeros(4, 3), torch.zeros(8, 3))
    assert views.polyp.tolist() == [0, 0, -3, -4]
    assert views.procedure.tolist() == [0, 0, 1, 1]
    assert views.position.tolist() == pytest.approx([0, 3 / 23, 8 / 23, 16 / 23])
    assert views.bag.tolist() == [0, 0, 1, 1]


def test_the_learning_rate_follows_its_schedule() -> None:
    cycle, constant = (
        Model(config(f"optim.schedule={name}", f"optim.method={method}", "optim.rate=0.5"), CPU)
        for name, method in (("one_cycle", "adam"), ("constant", "adamw"))
    )
    for model in (cycle, constant):
        model.set_rate(0.1)
    assert cycle.optimizer.param_groups[0]["lr"] == 0.5 * one_cycle(0.1)
    assert constant.optimizer.param_groups[0]["lr"] == 0.5
    assert [type(m.optimizer).__name__ for m in (cycle, constant)] == ["Adam", "AdamW"]


@pytest.mark.parametrize("warm_up", [0.1, 0.3])
def test_one_cycle_equals_the_scheduler_of_torch(warm_up: float) -> None:
    steps, top = 101, 2.0  # torch counts phases in steps - 1
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, top, total_steps=steps, pct_start=warm_up, cycle_momentum=False
    )
    # torch's rise ends at step warm_up * steps - 1, ours at a share warm_up of the progress.
    peak = warm_up * steps - 1
    for step in range(steps):
        progress = warm_up * step / peak if step < peak else None
        progress = (
            progress
            if progress is not None
            else warm_up + (1 - warm_up) * (step - peak) / (steps - 1 - peak)
        )
        assert top * one_cycle(min(progress, 1.0), warm_up) == pytest.approx(
            scheduler.get_last_lr()[0], rel=1e-6, abs=1e-9
        )
        optimizer.step()
        scheduler.step() if step < steps - 1 else None
