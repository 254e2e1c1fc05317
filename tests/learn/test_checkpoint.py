"""Checkpoints."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.learn.checkpoint import load_checkpoint, read_state, save_checkpoint


def trained(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_everything_comes_back(tmp_path: Path) -> None:
    model, optimizer = trained(0)
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, {"net": model}, optimizer, {"history": [{"loss": 1.5}], "recipe": "r"})
    other, other_optimizer = trained(1)
    load_checkpoint(path, {"net": other}, other_optimizer)
    assert read_state(path) == {"history": [{"loss": 1.5}], "recipe": "r"}
    for key, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[key], value)
    # One more step from either must be the same.
    batch = torch.randn(5, 3)
    for net, steps in ((model, optimizer), (other, other_optimizer)):
        steps.zero_grad()
        net(batch).square().sum().backward()
        steps.step()
    for key, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[key], value)


def test_moments_come_back_in_the_layout_of_their_parameters(tmp_path: Path) -> None:
    """A fused step on a GPU refuses moments that lie otherwise than their parameters."""

    def convolution() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(2, 4, 5, 5)).sum().backward()
        optimizer.step()
        return model, optimizer

    model, optimizer = convolution()
    save_checkpoint(tmp_path / "c.safetensors", {"net": model}, optimizer, {})
    other, other_optimizer = convolution()
    load_checkpoint(tmp_path / "c.safetensors", {"net": other}, other_optimizer)
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    for mine, theirs in pairs:
        loaded, kept = other_optimizer.state[theirs], optimizer.state[mine]
        for name in ("exp_avg", "exp_avg_sq"):
            assert loaded[name].stride() == theirs.stride()
            assert torch.equal(loaded[name], kept[name])


def test_checkpoints_of_others_are_refused(tmp_path: Path) -> None:
    model, optimizer = trained(0)
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, {"net": model}, optimizer, {})
    with pytest.raises(PolyplinkError, match="weights of another encoder"):
        load_checkpoint(path, {"net": nn.Linear(3, 4)})
    with pytest.raises(PolyplinkError, match="no checkpoint"):
        read_state(tmp_path / "none.safetensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "plain.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    for name in ("plain", "junk"):
        with pytest.raises(PolyplinkError, match="is not a checkpoint"):
            read_state(tmp_path / f"{name}.safetensors")
