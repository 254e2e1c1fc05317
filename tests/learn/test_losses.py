"""Every loss as a recipe names it: equal to its function, and never NaN."""

from typing import get_args

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.learn.intra_inter import IntraInterLoss, intra_inter
from polyplink.learn.losses import AnyLoss
from polyplink.learn.noise_aware import NoiseAwareLoss, multi_level_loss
from polyplink.learn.nt_xent import NtXentLoss, nt_xent
from polyplink.learn.supervised import SupervisedLoss, supervised
from polyplink.learn.temporally_aware import TemporallyAwareLoss, temporally_aware
from polyplink.learn.views import Views

KINDS = get_args(get_args(AnyLoss)[0])
LOSSES = [kind() for kind in KINDS] + [NoiseAwareLoss(form="anchored", within=1.0)]


def views(
    seed: int = 0,
    *,
    polyp: list[int] | None = None,
    bag: list[int] | None = None,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Views:
    """Four bags of two views of three frames, by default of three polyps in two procedures."""
    generator = torch.Generator().manual_seed(seed)
    bags = torch.tensor(bag or [0, 0, 1, 1, 2, 2, 3, 3])
    anchor = torch.ones(8, dtype=torch.bool)
    anchor[1:] = bags[1:] != bags[:-1]
    return Views(
        tracklets=(scale * torch.randn(8, 6, generator=generator)).to(dtype).requires_grad_(),
        frames=(scale * torch.randn(24, 6, generator=generator)).to(dtype).requires_grad_(),
        bag=bags,
        anchor=anchor,
        polyp=torch.tensor(polyp or [0, 0, 1, 1, 1, 1, 2, 2]),
        procedure=torch.tensor([0, 0, 0, 0, 0, 0, 1, 1]),
        position=torch.linspace(0, 1, 8),
    )


def test_each_asks_its_function_for_what_it_needs() -> None:
    v = views()
    z = v.tracklets
    expected: dict[AnyLoss, torch.Tensor] = {
        NoiseAwareLoss(frame=2.0): multi_level_loss(
            NoiseAwareLoss(frame=2.0), z, v.frames, v.bag, v.anchor
        ),
        SupervisedLoss(temperature=0.3): supervised(z, v.polyp, 0.3),
        TemporallyAwareLoss(decay=2.0): temporally_aware(z, v.polyp, v.position, 0.25, decay=2.0),
        IntraInterLoss(gamma=0.5): intra_inter(
            z, v.polyp, v.procedure, v.position, 0.25, gamma=0.5
        ),
        NtXentLoss(): nt_xent(z[0::2], z[1::2], 0.07),
    }
    assert {type(loss) for loss in expected} == set(KINDS)
    for loss, value in expected.items():
        torch.testing.assert_close(loss(v), value)


def test_identities_between_losses() -> None:
    v = views()
    torch.testing.assert_close(IntraInterLoss(gamma=0.0)(v), TemporallyAwareLoss()(v))
    torch.testing.assert_close(TemporallyAwareLoss(decay=0.0)(v), SupervisedLoss()(v))
    two = views(polyp=[0, 0, 1, 1, 2, 2, 3, 3])
    torch.testing.assert_close(TemporallyAwareLoss()(two), SupervisedLoss()(two))
    same = NtXentLoss(temperature=0.25)(two)
    torch.testing.assert_close(SupervisedLoss()(two), same)
    pairs = NoiseAwareLoss(frame=0.0, temperature=0.25)  # of two, in or outside the logarithm
    torch.testing.assert_close(pairs(two), same)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
@pytest.mark.parametrize(
    "given",
    [
        {"polyp": [0] * 8, "bag": [0] * 8},  # one class
        {"polyp": list(range(8)), "bag": list(range(8))},  # no positive
        {"scale": 1e4},
        {"scale": 0.0},  # embeddings of no length
        {"dtype": torch.bfloat16},
    ],
    ids=["one class", "no positive", "huge", "zero", "bf16"],
)
def test_nothing_gives_nan_in_value_or_gradient(loss: NoiseAwareLoss, given: dict) -> None:  # type: ignore[type-arg]
    v = views(**given)
    value = loss(v)
    slopes = torch.autograd.grad(value, [v.tracklets, v.frames], allow_unused=True)
    assert torch.isfinite(value)
    assert all(torch.isfinite(slope).all() for slope in slopes if slope is not None)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_bf16_embeddings_give_the_loss_of_their_values(loss: NoiseAwareLoss) -> None:
    low = views(dtype=torch.bfloat16)
    high = Views(
        **{**vars(low), "tracklets": low.tracklets.double(), "frames": low.frames.double()}
    )
    assert loss(low).item() == pytest.approx(loss(high).item(), rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_plain_values_name_the_loss(loss: NoiseAwareLoss) -> None:
    adapter = TypeAdapter(AnyLoss)
    assert adapter.validate_python(to_plain(loss)) == loss
    with pytest.raises(ValidationError, match="triplet"):
        adapter.validate_python({"kind": "triplet"})


def test_fields_without_sense_are_refused() -> None:
    for kind in KINDS:
        with pytest.raises(PolyplinkError, match=r"loss\.temperature is 0"):
            kind(temperature=0.0)
    with pytest.raises(PolyplinkError, match=r"loss\.decay is -1"):
        TemporallyAwareLoss(decay=-1)
    with pytest.raises(PolyplinkError, match=r"loss\.gamma is -1"):
        IntraInterLoss(gamma=-1)
