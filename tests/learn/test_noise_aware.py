"""The noise-aware loss against naive double loops."""

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
    """Both forms of the loss as differentiable loops."""
    u, anchor, rows = [row / row.norm() for row in z], anchors(bag), []
    source_fragment = fragment or list(range(len(bag)))
    source_procedure = procedure or bag

    def e(a: int, b: int) -> torch.Tensor:
        return torch.exp(u[a] @ u[b] / TEMPERATURE)

    for a in range(len(bag)):
        if form == "symmetric":
            others = [q for q in range(len(bag)) if source_fragment[q] != source_fragment[a]]
            positives = [e(a, q) for q in others if bag[q] == bag[a]]
            negatives = [e(a, q) for q in others if source_procedure[q] != source_procedure[a]]
        else:
            members = [k for k in range(len(bag)) if bag[k] == bag[a] and not anchor[k]]
            others = [
                j
                for j in range(len(bag))
                if anchor[j] and source_procedure[j] != source_procedure[a]
            ]
            positives = [e(k, a) for k in members] if anchor[a] else []
            negatives = [e(k, j) for j in others for k in members]
        if positives:
            positive_sum = torch.stack(positives).sum()
            rows.append(-torch.log(positive_sum / (positive_sum + torch.stack(negatives).sum())))
    return torch.stack(rows).mean()


def bags_of_several_sizes(dtype: torch.dtype) -> tuple[torch.Tensor, list[int]]:
    generator = torch.Generator().manual_seed(0)
    bag = [0] * 5 + [3] * 3 + [7] * 1 + [9] * 5  # one bag has only an anchor
    return torch.randn(len(bag), 6, generator=generator, dtype=torch.float64).to(dtype), bag


def anchors(bag: list[int]) -> list[bool]:
    return [i == 0 or bag[i] != bag[i - 1] for i in range(len(bag))]


@pytest.mark.parametrize("form", ["symmetric", "anchored", "masked"])
@pytest.mark.parametrize("negatives", ["all", "other_procedures"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_value_and_gradient_equal_naive_loops(
    form: str, negatives: str, dtype: torch.dtype
) -> None:
    z, bag = bags_of_several_sizes(dtype)
    leaf, naive_leaf = z.clone().requires_grad_(), z.double().requires_grad_()
    bags, fragment = torch.tensor(bag), [i // 2 for i in range(len(bag))]
    procedures = (
        None if negatives == "all" else [b // 5 for b in bag]
    )  # bags 0 and 3 share a procedure, and 7 and 9
    procedure = None if procedures is None else torch.tensor(procedures)
    if form == "anchored":
        value = anchored_noise_aware(
            leaf, bags, torch.tensor(anchors(bag)), TEMPERATURE, procedure=procedure
        )
        expected = naive(naive_leaf, bag, form, procedure=procedures)
    else:
        masked_fragment = fragment if form == "masked" else None
        masked = None if masked_fragment is None else torch.tensor(masked_fragment)
        value = symmetric_noise_aware(leaf, bags, TEMPERATURE, fragment=masked, procedure=procedure)
        expected = naive(naive_leaf, bag, "symmetric", masked_fragment, procedures)
    torch.testing.assert_close(value.double(), expected, atol=1e-6, rtol=1e-6)
    (gradient,) = torch.autograd.grad(value, leaf)
    (expected_gradient,) = torch.autograd.grad(expected, naive_leaf)
    torch.testing.assert_close(gradient.double(), expected_gradient, atol=1e-6, rtol=1e-6)


def test_the_loss_is_the_weighted_sum_of_its_levels() -> None:
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
        fields = dict(zip(expected, weights, strict=True))
        total = sum(fields[name] * value.item() for name, value in expected.items())
        assert NoiseAwareLoss(**fields)(views).item() == pytest.approx(total, rel=1e-5)  # type: ignore[arg-type]
    masked = symmetric_noise_aware(frames, bag[fragment], TEMPERATURE, fragment=fragment)
    torch.testing.assert_close(NoiseAwareLoss(tracklet=0, mask_fragment=True)(views), masked)
    levels = (
        anchored_noise_aware(tracklets, bag, anchor, TEMPERATURE),
        anchored_noise_aware(frames, bag[fragment], anchor[fragment], TEMPERATURE),
    )
    torch.testing.assert_close(NoiseAwareLoss(form="anchored")(views), levels[0] + levels[1])
