"""Training in several processes: the same gradients and the same run as in one."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import batches, rng_of
from polyplink.learn.devices import Devices, check_devices, processes, share, share_statistics
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.loop import fit
from polyplink.learn.model import Model
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.train_config import AnyLoss, TrainConfig
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl_demo
from polyplink.tracklets.prepare import Prepared, prepare
from tests.conftest import TINY
from tests.learn.test_losses import KINDS
from tests.samples import write_procedures

CPU = torch.device("cpu")
LOSSES: list[AnyLoss] = [
    *(kind() for kind in KINDS),
    NoiseAwareLoss(form="anchored", within=1.0),
    NoiseAwareLoss(tracklet=0.0, mask_fragment=True),
]


def config(*changes: str) -> TrainConfig:
    """A small recipe without dropout, which differs between processes."""
    base_changes = ("encoder.dropout=0", "optim.bags_per_batch=5", "optim.rate=1e-3")
    return override(ntssl_demo(), [*TINY, *base_changes, *changes])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = write_procedures(tmp_path_factory.mktemp("devices"), procedures=4)
    return prepare(folder, config().prepare)


def gradients(fabric: Devices, prepared: Prepared) -> list[dict[str, torch.Tensor]]:
    """Value and gradients per loss in the second batch, of an odd number of views."""
    torch.set_default_dtype(torch.float64)  # in single precision rounding changes them by 1e-3
    model, values_and_gradients = Model(config(), fabric.device, fabric), []
    model.encoder.backbone.register_forward_pre_hook(lambda module, inputs: inputs[0].double())
    data = FragmentSet(prepared, prepared.procedures, 4, fabric.device)
    drawn = model.config.bags.draw(data, 0.5, 5, rng_of(0))
    batch = list(batches(drawn.bags, 5, fabric.device))[1]
    model.module.train()
    for loss in LOSSES:
        model.optimizer.zero_grad()
        value = loss(model.views(data, drawn, batch))
        fabric.backward(value)
        parameters = model.module.named_parameters()
        parameter_gradients = {
            name: parameter.grad.clone()
            for name, parameter in parameters
            if parameter.grad is not None
        }
        values_and_gradients.append({"value": value.detach()} | parameter_gradients)
    buffers = {n: b.clone() for n, b in model.encoder.named_buffers() if "running" in n}
    torch.set_default_dtype(torch.float32)
    return [*values_and_gradients, buffers]


@pytest.mark.slow
def test_every_loss_has_the_gradient_of_one_process(prepared: Prepared) -> None:
    single = gradients(Devices(CPU), prepared)
    with processes(2, CPU, gradients, (prepared,)) as fabric:
        distributed = gradients(fabric, prepared)
    assert len(single[-1]) > 2  # statistics of BatchNorm, over the frames of both processes
    for single_loss, distributed_loss in zip(single, distributed, strict=True):
        assert single_loss.keys() <= distributed_loss.keys()
        for name, gradient in distributed_loss.items():
            expected = single_loss.get(name, torch.zeros_like(gradient))
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.slow
def test_a_run_resumes_with_another_number_of_processes(prepared: Prepared, tmp_path: Path) -> None:
    short, full = config("optim.epochs=1", "bags.tau_max=0.3"), config("bags.tau_max=0.3")
    uninterrupted = fit(full, prepared, tmp_path / "one", device=CPU)
    fit(short, prepared, tmp_path / "two", device=CPU)
    reported_losses: list[float] = []
    resumed = fit(
        full,
        prepared,
        tmp_path / "two",
        device=CPU,
        devices=2,
        resume=True,
        progress=lambda done, total, row: reported_losses.append(row["loss"]),
    )
    assert len(resumed.history) == 2
    assert reported_losses == [resumed.history[1]["loss"]]
    for name in ("loss", "loss_labels", "frames", "purity"):
        assert resumed.history[1][name] == pytest.approx(uninterrupted.history[1][name], rel=1e-3)
    # Where the gradient is only rounding, Adam's step can have either sign: few elements, 53 of
    # 378,047 on a Xeon with AMX.
    weights = resumed.encoder.state_dict()
    close = [
        torch.isclose(weights[name], value, rtol=1e-2, atol=1e-4).flatten()
        for name, value in uninterrupted.encoder.state_dict().items()
    ]
    assert torch.cat(close).double().mean() > 0.9995


@pytest.mark.slow
def test_an_error_in_another_process_is_raised(prepared: Prepared) -> None:
    with (
        pytest.raises(PolyplinkError, match="the second process stops"),
        processes(2, CPU, stop, ()) as fabric,
    ):
        torch.distributed.barrier()
        assert fabric.world_size == 3  # not reached


def stop(fabric: Devices) -> None:
    raise PolyplinkError("the second process stops", "as it should")


@pytest.mark.parametrize("momentum", [None, 0.0, 0.3])
def test_shared_statistics_are_those_of_batch_norm(
    momentum: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, expected = (nn.BatchNorm2d(3, momentum=momentum) for _ in range(2))
    share_statistics(layer, "cpu")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda total: None)  # of one process
    for seed in range(3):
        batch = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(layer(batch), expected(batch))
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(layer.state_dict()[name], value)
    for batch_norm in (layer, expected):
        with pytest.raises(ValueError, match="value per channel"):
            batch_norm(torch.randn(1, 3, 1, 1))


@given(st.integers(1, 40), st.integers(1, 8))
def test_shares_cover_a_batch_once_and_in_order(n: int, world: int) -> None:
    shares: Sequence[Any] = [share(n, rank, world) for rank in range(world)]
    assert np.concatenate(shares)[:n].tolist() == list(range(n))
    sizes = list(map(len, shares))
    assert sum(sizes) == max(n, world)
    assert max(sizes) - min(sizes) <= 1


def test_unavailable_devices_and_libraries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(importlib, "import_module", imported.append)  # the library takes seconds
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for device in ("cuda", "cuda:0"):
        with pytest.raises(PolyplinkError, match="there are 1 GPUs"):
            check_devices(2, torch.device(device))
    check_devices(2, CPU)
    assert set(imported) == {"lightning_fabric"}

    def raise_missing_module(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", raise_missing_module)
    with pytest.raises(PolyplinkError, match=r"polyplink\[train\]"):
        check_devices(2, CPU)
