"""Checkpoints: what they restore, and files that are refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.learn.checkpoint import load_checkpoint, read_state, save_checkpoint


def train_briefly(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_moments_are_restored_in_the_memory_format_of_their_parameters(tmp_path: Path) -> None:
    """A fused step on a GPU refuses moments in another memory format."""

    def train_convolution() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(2, 4, 5, 5)).sum().backward()
        optimizer.step()
        return model, optimizer

    model, optimizer = train_convolution()
    save_checkpoint(tmp_path / "c.safetensors", model, optimizer, {})
    other, other_optimizer = train_convolution()
    load_checkpoint(tmp_path / "c.safetensors", other, other_optimizer)
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    for original, reloaded in pairs:
        loaded, saved = other_optimizer.state[reloaded], optimizer.state[original]
        for name in ("exp_avg", "exp_avg_sq"):
            assert loaded[name].stride() == reloaded.stride()
            assert torch.equal(loaded[name], saved[name])


def test_other_files_are_refused_as_checkpoints(tmp_path: Path) -> None:
    model, optimizer = train_briefly(0)
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, model, optimizer, {})
    with pytest.raises(PolyplinkError, match="weights of another encoder"):
        load_checkpoint(path, nn.Linear(3, 4))
    with pytest.raises(PolyplinkError, match="no checkpoint"):
        read_state(tmp_path / "none.safetensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "plain.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    for name in ("plain", "junk"):
        with pytest.raises(PolyplinkError, match="is not a checkpoint"):
            read_state(tmp_path / f"{name}.safetensors")
