"""Two processes give the gradient of one."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import spawn

from polyplink.learn.bags import shard
from polyplink.learn.config import AnyLoss
from polyplink.learn.contrastive import Views, identities
from polyplink.learn.gather import gather_rows, gather_views
from polyplink.learn.noise_aware import NoiseAwareLoss
from tests.learn.test_losses import KINDS

WORLD = 2
LOSSES: list[AnyLoss] = [
    *(kind() for kind in KINDS),
    NoiseAwareLoss(form="anchored", within=1.0),
    NoiseAwareLoss(mask_fragment=True),
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(5, 4, dtype=torch.float64)


def batch(model: nn.Module, rank: int | None = None) -> Views:
    """Five bags of two views of three frames; of one process its bags, numbered from 0."""
    generator = torch.Generator().manual_seed(1)
    clips = torch.randn(10, 3, 5, generator=generator, dtype=torch.float64)
    bag = torch.arange(5).repeat_interleave(2)
    polyp = torch.tensor([0, 0, 1, 1, 0, 0, 2, 7, 7, 7])
    known = polyp != 7
    kept = torch.arange(10)
    if rank is not None:
        own = shard(range(5), rank, WORLD)  # three bags, two bags
        kept = torch.cat([torch.nonzero(bag == b)[:, 0] for b in own])
    frames = model(clips[kept])  # n s d
    return Views(
        tracklets=frames.mean(dim=1),
        frames=frames.flatten(0, 1),
        bag=torch.unique(bag[kept], return_inverse=True)[1],
        anchor=kept % 2 == 0,
        polyp=identities(polyp[kept], known[kept]),
        procedure=polyp[kept] // 2,
        position=torch.linspace(0, 1, 10)[kept],
    )


def slopes(model: nn.Module, loss: AnyLoss, views: Views) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss(views), list(model.parameters())))


def _process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD
    )
    model = network()
    found = {}
    for index, loss in enumerate(LOSSES):
        views = gather_views(batch(model, rank))
        mean = slopes(model, loss, views)
        for slope in mean:  # as DistributedDataParallel does
            distributed.all_reduce(slope)
            slope.div_(WORLD)
        found[index] = (loss(views).detach(), mean)
    views = gather_views(batch(model, rank))
    plain = {name: value.detach() for name, value in vars(views).items()}
    torch.save({"found": found, "views": plain}, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@cache
def both(folder: Path) -> list[dict[str, Any]]:
    spawn(_process, args=(str(folder),), nprocs=WORLD)  # type: ignore[no-untyped-call]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gather")


@pytest.mark.slow
def test_every_loss_has_the_gradient_of_one_process(folder: Path) -> None:
    for index, loss in enumerate(LOSSES):
        model = network()
        views = batch(model)
        wanted, value = slopes(model, loss, views), loss(views).detach()
        for process in both(folder):
            found, mean = process["found"][index]
            torch.testing.assert_close(found, value, rtol=1e-12, atol=0.0)
            for ours, one in zip(mean, wanted, strict=True):
                torch.testing.assert_close(ours, one, rtol=1e-10, atol=1e-12)
        # A loss within one process is another one.
        apart = [slopes(model, loss, batch(model, rank))[0] for rank in range(WORLD)]
        assert not torch.allclose(torch.stack(apart).mean(dim=0), wanted[0], rtol=1e-3)


@pytest.mark.slow
def test_bags_and_unknown_polyps_of_two_processes_stay_apart(folder: Path) -> None:
    one, other = (process["views"] for process in both(folder))
    assert isinstance(one["bag"], torch.Tensor)
    assert one["bag"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    polyp = one["polyp"]
    assert isinstance(polyp, torch.Tensor)
    assert sorted(polyp[polyp >= 0].tolist()) == [0, 0, 0, 0, 1, 1, 2]
    assert len(set(polyp[polyp < 0].tolist())) == 3  # three views of unknown polyps
    for name, value in one.items():
        assert isinstance(value, torch.Tensor)
        assert torch.equal(value, other[name])


def test_one_process_keeps_its_own() -> None:
    views = batch(network())
    assert gather_views(views) is views
    assert gather_rows(views.frames) is views.frames
    assert gather_views(replace(views, bag=views.bag + 3)).bag.min() == 3
