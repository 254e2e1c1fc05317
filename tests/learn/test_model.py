"""The step of encoder and projector, and the learning rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import Batch, EpochBags, batches, pair_bags, rng_of
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.model import Model, labelled, one_cycle
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl_demo
from polyplink.tracklets.prepare import prepare
from tests.conftest import TINY
from tests.learn.sets import bare_set
from tests.samples import write_procedures

CPU = torch.device("cpu")


def config(*changes: str) -> TrainConfig:
    return override(ntssl_demo(), [*TINY, "encoder.dropout=0", "optim.bags_per_batch=4", *changes])


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


def without_statistics(model: Model) -> Model:
    """BatchNorm as in evaluation, so that batches do not see each other through it."""
    for module in model.encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return model


def gradients(model: Model) -> list[torch.Tensor]:
    return [
        p.grad.clone() for m in model.modules.values() for p in m.parameters() if p.grad is not None
    ]


def test_accumulated_gradients_are_the_mean_of_the_batches(data: FragmentSet) -> None:
    drawn, parts = epoch_of(Model(config(), CPU), data)
    found = []
    for group in ([parts[0]], [parts[1]], [parts[2]], parts[:3]):
        model = without_statistics(Model(config(), CPU))
        assert len(model.learn(data, drawn, group, generator())) == len(group)
        found.append(gradients(model))
    *alone, whole = found
    for together, each in zip(whole, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(together, torch.stack(each).mean(0), atol=1e-5, rtol=1e-4)


def test_a_step_computes_in_the_recipes_precision_backwards_too(data: FragmentSet) -> None:
    """On a CPU tf32 is float32 to the bit, whatever torch is set to; bf16 is not."""
    found: dict[str, list[torch.Tensor]] = {}
    torch.set_float32_matmul_precision("medium")
    try:
        for name in ("none", "float32", "tf32", "bf16"):
            model = without_statistics(Model(config(f"optim.precision={name}"), CPU))
            drawn, parts = epoch_of(model, data)
            seen: list[str] = []
            first = next(iter(model.encoder.parameters()))
            first.register_hook(  # type: ignore[no-untyped-call]
                lambda slope, s=seen: s.append(torch.get_float32_matmul_precision())
            )
            model.learn(data, drawn, parts[:1], generator())
            assert seen == ["medium" if name == "bf16" else "highest"]
            found[name] = gradients(model)
    finally:
        torch.set_float32_matmul_precision("highest")
    for name in ("float32", "tf32"):
        assert all(map(torch.equal, found["none"], found[name]))
    assert not all(map(torch.equal, found["none"], found["bf16"]))


def test_trained_raw_and_used_normalised(data: FragmentSet) -> None:
    """As with no normalisation at all while it learns; its normalisation returns afterwards."""
    plain = ["encoder.mean=[0,0,0]", "encoder.std=[1,1,1]"]
    mixed, raw, usual = (
        without_statistics(Model(config(*changes), CPU))
        for changes in (["raw_training=true"], plain, [])
    )
    drawn, parts = epoch_of(usual, data)
    losses = [m.learn(data, drawn, parts[:1], generator()) for m in (mixed, raw, usual)]
    assert losses[0] == losses[1] != losses[2]
    crops = data.pixels(drawn.clips[:1])
    with torch.no_grad():
        assert torch.equal(mixed.encoder(crops, [4]).tracklet, raw.encoder(crops, [4]).tracklet)
        used = mixed.as_used()
        raw.encoder.load_state_dict(used.state_dict())
        raw.encoder.keep_pixel_scale((0.45,) * 3, (0.225,) * 3)
        assert torch.equal(used(crops, [4]).tracklet, raw.encoder(crops, [4]).tracklet)


class _Breaks(nn.Module):
    """An encoder whose third tracklet is NaN."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, crops: torch.Tensor, lengths: list[int]) -> object:
        tokens = self.encoder(crops, lengths)
        broken = torch.zeros(len(lengths), 1)
        broken[2] = math.nan
        return replace(tokens, tracklet=tokens.tracklet + broken)


def test_a_bad_batch_names_its_tracklet_and_takes_no_step(data: FragmentSet) -> None:
    model = Model(config(), CPU)
    drawn, parts = epoch_of(model, data)
    before = [p.clone() for p in model.encoder.parameters()]
    model.network.encoder = _Breaks(model.encoder)
    row = drawn.clips[parts[1].fragments[2], 0]
    name = data.tracklets.names[data.tracklet_of[row]]
    says = rf"embedding of tracklet {name} is not finite \(1 of the .* --resume continues"
    with pytest.raises(PolyplinkError, match=says):
        model.learn(data, drawn, [parts[1]], generator())
    for old, now in zip(before, model.encoder.parameters(), strict=True):
        assert torch.equal(old, now)


def test_a_bad_loss_of_good_embeddings_and_too_little_memory_are_one_line(
    data: FragmentSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    infinite = replace(config(), loss=lambda views: torch.tensor(math.inf))
    model = Model(infinite, CPU)
    drawn, parts = epoch_of(model, data)
    with pytest.raises(PolyplinkError, match=r"the loss is inf .*which has finite embeddings"):
        model.learn(data, drawn, parts[:1], generator())

    def too_much(clips: np.ndarray) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(data, "pixels", too_much)
    with pytest.raises(PolyplinkError, match=r"memory of cpu .* lower optim\.bags_per_batch"):
        model.learn(data, drawn, parts[:1], generator())


def test_views_carry_what_is_known_of_their_clips() -> None:
    data = bare_set([8, 8, 8], [0, 4, 4], known=[True, False, False])
    data.device, data.polyp_positions = CPU, np.linspace(0, 1, 24)
    clips = np.array([[0, 2], [3, 5], [8, 10], [16, 17]])
    (batch,) = batches(pair_bags(np.ones(2, bool)), 2, CPU)
    views = labelled(data, clips, batch, torch.zeros(4, 3), torch.zeros(8, 3))
    assert views.polyp.tolist() == [0, 0, -3, -4]
    assert views.procedure.tolist() == [0, 0, 1, 1]
    assert views.position.tolist() == pytest.approx([0, 3 / 23, 8 / 23, 16 / 23])
    assert views.bag.tolist() == [0, 0, 1, 1]


def test_the_rate_follows_its_schedule() -> None:
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
def test_it_is_torchs(warm_up: float) -> None:
    steps, top = 101, 2.0  # torch counts its phases in steps - 1
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, top, total_steps=steps, pct_start=warm_up, cycle_momentum=False
    )
    # Its rise ends at warm_up * steps - 1; ours at warm_up of the way.
    peak = warm_up * steps - 1
    for step in range(steps):
        at = warm_up * step / peak if step < peak else None
        at = at if at is not None else warm_up + (1 - warm_up) * (step - peak) / (steps - 1 - peak)
        assert top * one_cycle(min(at, 1.0), warm_up) == pytest.approx(
            theirs.get_last_lr()[0], rel=1e-6, abs=1e-9
        )
        optimizer.step()
        theirs.step() if step < steps - 1 else None
