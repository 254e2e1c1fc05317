"""The noise-aware loss against naive double loops, and what sets it apart."""

import pytest
import torch

from polyplink.learn.contrastive import Views
from polyplink.learn.noise_aware import NoiseAwareLoss, anchored_noise_aware, symmetric_noise_aware

TEMPERATURE = 0.07


def naive(
    z: torch.Tensor,
    bag: list[int],
    form: str,
    fragment: list[int] | None = None,
    procedure: list[int] | None = None,
) -> torch.Tensor:
    """Both forms as differentiable loops, one exponential at a time."""
    u, anchor, rows = [row / row.norm() for row in z], anchors(bag), []
    apart = fragment or list(range(len(bag)))
    place = procedure or bag

    def e(a: int, b: int) -> torch.Tensor:
        return torch.exp(u[a] @ u[b] / TEMPERATURE)

    for a in range(len(bag)):
        if form == "symmetric":
            others = [q for q in range(len(bag)) if apart[q] != apart[a]]
            own = [e(a, q) for q in others if bag[q] == bag[a]]
            foreign = [e(a, q) for q in others if place[q] != place[a]]
        else:
            members = [k for k in range(len(bag)) if bag[k] == bag[a] and not anchor[k]]
            others = [j for j in range(len(bag)) if anchor[j] and place[j] != place[a]]
            own = [e(k, a) for k in members] if anchor[a] else []
            foreign = [e(k, j) for j in others for k in members]
        if own:
            above = torch.stack(own).sum()
            rows.append(-torch.log(above / (above + torch.stack(foreign).sum())))
    return torch.stack(rows).mean()


def ragged(seed: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    bag = [0] * 5 + [3] * 3 + [7] * 1 + [9] * 5  # sizes differ; one bag is an anchor alone
    return torch.randn(len(bag), 6, generator=generator, dtype=torch.float64).to(dtype), bag


def anchors(bag: list[int]) -> list[bool]:
    return [i == 0 or bag[i] != bag[i - 1] for i in range(len(bag))]


@pytest.mark.parametrize("form", ["symmetric", "anchored", "masked"])
@pytest.mark.parametrize("negatives", ["all", "other_procedures"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_equal_the_loops(
    form: str, negatives: str, dtype: torch.dtype, seed: int
) -> None:
    z, bag = ragged(seed, dtype)
    left, right = z.clone().requires_grad_(), z.double().requires_grad_()
    bags, fragment = torch.tensor(bag), [i // 2 for i in range(len(bag))]
    place = (
        None if negatives == "all" else [b // 5 for b in bag]
    )  # bags 0 and 3 share one, and 7 and 9
    procedure = None if place is None else torch.tensor(place)
    if form == "anchored":
        ours = anchored_noise_aware(
            left, bags, torch.tensor(anchors(bag)), TEMPERATURE, procedure=procedure
        )
        theirs = naive(right, bag, form, procedure=place)
    else:
        own = fragment if form == "masked" else None
        masked = None if own is None else torch.tensor(own)
        ours = symmetric_noise_aware(left, bags, TEMPERATURE, fragment=masked, procedure=procedure)
        theirs = naive(right, bag, "symmetric", own, place)
    torch.testing.assert_close(ours.double(), theirs, atol=1e-6, rtol=1e-6)
    (slope,) = torch.autograd.grad(ours, left)
    (wanted,) = torch.autograd.grad(theirs, right)
    torch.testing.assert_close(slope.double(), wanted, atol=1e-6, rtol=1e-6)


def anchored_supcon(z: torch.Tensor, bag: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
    """The same anchors, members and negatives, but the mean over positives outside the log."""
    u = torch.nn.functional.normalize(z, dim=1)
    logits = u @ u.T / TEMPERATURE  # n n, rows y, columns z
    rows = []
    for i in torch.nonzero(anchor)[:, 0].tolist():
        members = (bag == bag[i]) & ~anchor
        others = (bag != bag[i]) & anchor
        against = torch.logsumexp(logits[others][:, members].reshape(-1), dim=0)
        own = logits[i][members]
        rows.append((torch.logaddexp(own, against) - own).mean())
    return torch.stack(rows).mean()


def test_a_corrupted_positive_loses_its_pull_as_the_others_align() -> None:
    """One wrong member: the noise-aware gradient on it vanishes, SupCon's does not."""
    bag = torch.tensor([0] * 5 + [1] * 5)
    anchor = torch.tensor([True, False, False, False, False] * 2)
    wrong = 4  # in bag 0, but of another polyp: orthogonal to all the rest
    noise = torch.randn(10, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, supcon = [], []
    for spread in (1.0, 0.3, 0.03):
        z = torch.eye(8, dtype=torch.float64)[bag] + spread * noise / 4
        z[wrong] = torch.eye(8, dtype=torch.float64)[5]
        leaf = z.requires_grad_()
        loss = anchored_noise_aware(leaf, bag, anchor, TEMPERATURE)
        ours.append(torch.autograd.grad(loss, leaf)[0][wrong].norm().item())
        loss = anchored_supcon(leaf, bag, anchor)
        supcon.append(torch.autograd.grad(loss, leaf)[0][wrong].norm().item())
    assert ours[0] > ours[1] > ours[2]
    assert ours[2] < 1e-4
    assert supcon[2] > 0.5


def test_levels_add_up_as_weighted() -> None:
    generator = torch.Generator().manual_seed(3)
    tracklets = torch.randn(6, 4, generator=generator)
    frames = torch.randn(18, 4, generator=generator)  # three frames per fragment
    bag, fragment = torch.arange(6) // 3, torch.arange(18) // 3
    anchor = torch.tensor(anchors(bag.tolist()))
    views = Views(tracklets, frames, bag, anchor, bag, bag, bag.float())
    expected = {
        "tracklet": symmetric_noise_aware(tracklets, bag, TEMPERATURE),
        "frame": symmetric_noise_aware(frames, bag[fragment], TEMPERATURE),
        "within": symmetric_noise_aware(frames, fragment, TEMPERATURE),
    }
    for weights in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0.5, 2, 3)):
        own = dict(zip(expected, weights, strict=True))
        total = sum(own[name] * value.item() for name, value in expected.items())
        assert NoiseAwareLoss(**own)(views).item() == pytest.approx(total, rel=1e-5)  # type: ignore[arg-type]
    masked = symmetric_noise_aware(frames, bag[fragment], TEMPERATURE, fragment=fragment)
    torch.testing.assert_close(NoiseAwareLoss(tracklet=0, mask_fragment=True)(views), masked)
    levels = (
        anchored_noise_aware(tracklets, bag, anchor, TEMPERATURE),
        anchored_noise_aware(frames, bag[fragment], anchor[fragment], TEMPERATURE),
    )
    torch.testing.assert_close(NoiseAwareLoss(form="anchored")(views), levels[0] + levels[1])
