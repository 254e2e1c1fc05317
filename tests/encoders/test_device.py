"""Devices by name."""

import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import memory_suffices, pick_device, place, precision


def test_auto_takes_what_is_there() -> None:
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda:99", "abacus"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(PolyplinkError, match=f"no device '{name}'"):
        pick_device(name)


def test_the_cpu_computes_in_float32_and_a_gpu_in_bf16() -> None:
    with precision(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    if torch.cuda.is_available():
        with precision(torch.device("cuda")):
            a = torch.ones(2, 2, device="cuda")
            assert (a @ a).dtype == torch.bfloat16


def test_convolutions_are_placed_channels_last() -> None:
    model = nn.Conv2d(4, 6, 3)
    assert place(model, torch.device("cpu")) is model
    assert model.weight.is_contiguous(memory_format=torch.channels_last)


def test_a_lack_of_memory_is_one_line_and_other_errors_stay() -> None:
    cpu = torch.device("cpu")
    with pytest.raises(PolyplinkError, match="the memory of cpu does"), memory_suffices(cpu):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(PolyplinkError, match="shorter clips"), memory_suffices(cpu):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="shapes"), memory_suffices(cpu):
        raise RuntimeError("shapes do not fit")


def test_convolutions_over_time_are_placed_too() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv3d(3, 8, 3))
    wanted = [tensor.detach().clone() for tensor in module.parameters()]
    placed = list(place(module, torch.device("cpu")).parameters())
    assert placed[0].is_contiguous(memory_format=torch.channels_last)
    assert all(torch.equal(a, b) for a, b in zip(placed, wanted, strict=True))
