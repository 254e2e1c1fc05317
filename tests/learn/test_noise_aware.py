"""The noise-aware loss against naive double loops, and what sets it apart."""

import math

import numpy as np
import pytest
import torch

from polyplink.learn.noise_aware import (
    NoiseAwareLoss,
    anchored_noise_aware,
    multi_level_loss,
    symmetric_noise_aware,
)

TEMPERATURE = 0.07


def unit(z: torch.Tensor) -> np.ndarray:
    rows = z.detach().double().numpy()
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def naive_symmetric(z: torch.Tensor, bag: list[int], fragment: list[int] | None = None) -> float:
    u, n, rows = unit(z), len(bag), []
    for a in range(n):
        allowed = [
            q for q in range(n) if q != a and (fragment is None or fragment[q] != fragment[a])
        ]
        e = {q: math.exp(float(u[a] @ u[q]) / TEMPERATURE) for q in allowed}
        positives = [q for q in allowed if bag[q] == bag[a]]
        if positives:
            rows.append(-math.log(sum(e[p] for p in positives) / sum(e.values())))
    return sum(rows) / len(rows) if rows else 0.0


def naive_anchored(z: torch.Tensor, bag: list[int], anchor: list[bool]) -> float:
    u, rows = unit(z), []
    for i, is_anchor in enumerate(anchor):
        if not is_anchor:
            continue
        members = [k for k in range(len(bag)) if bag[k] == bag[i] and not anchor[k]]
        others = [j for j in range(len(bag)) if anchor[j] and bag[j] != bag[i]]
        if not members:
            continue
        own = sum(math.exp(float(u[k] @ u[i]) / TEMPERATURE) for k in members)
        foreign = sum(math.exp(float(u[k] @ u[j]) / TEMPERATURE) for j in others for k in members)
        rows.append(-math.log(own / (own + foreign)))
    return sum(rows) / len(rows) if rows else 0.0


def ragged(seed: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    bag = [0] * 5 + [3] * 3 + [7] * 1 + [9] * 5  # sizes differ; one bag is an anchor alone
    return torch.randn(len(bag), 6, generator=generator, dtype=torch.float64).to(dtype), bag


def anchors(bag: list[int]) -> list[bool]:
    return [i == 0 or bag[i] != bag[i - 1] for i in range(len(bag))]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_symmetric_equals_the_loop(seed: int, dtype: torch.dtype) -> None:
    z, bag = ragged(seed, dtype)
    loss = symmetric_noise_aware(z, torch.tensor(bag), TEMPERATURE)
    assert loss.item() == pytest.approx(naive_symmetric(z, bag), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_symmetric_without_own_fragment_equals_the_loop(seed: int) -> None:
    z, bag = ragged(seed)
    fragment = [i // 2 for i in range(len(bag))]
    loss = symmetric_noise_aware(z, torch.tensor(bag), TEMPERATURE, fragment=torch.tensor(fragment))
    assert loss.item() == pytest.approx(naive_symmetric(z, bag, fragment), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_anchored_equals_the_loop(seed: int, dtype: torch.dtype) -> None:
    z, bag = ragged(seed, dtype)
    anchor = anchors(bag)
    loss = anchored_noise_aware(z, torch.tensor(bag), torch.tensor(anchor), TEMPERATURE)
    assert loss.item() == pytest.approx(naive_anchored(z, bag, anchor), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("form", ["symmetric", "anchored"])
def test_gradients_are_those_of_finite_differences(form: str) -> None:
    z, bag = ragged(0)
    bags, anchor = torch.tensor(bag), torch.tensor(anchors(bag))

    def loss(x: torch.Tensor) -> torch.Tensor:
        if form == "symmetric":
            return symmetric_noise_aware(x, bags, TEMPERATURE)
        return anchored_noise_aware(x, bags, anchor, TEMPERATURE)

    assert torch.autograd.gradcheck(loss, z.requires_grad_())


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


@pytest.mark.parametrize("form", ["symmetric", "anchored"])
def test_no_positive_anywhere_is_zero_and_never_nan(form: str) -> None:
    z = torch.randn(4, 3, requires_grad=True)
    bag = torch.arange(4)
    loss = (
        symmetric_noise_aware(z, bag, TEMPERATURE)
        if form == "symmetric"
        else anchored_noise_aware(z, bag, torch.ones(4, dtype=torch.bool), TEMPERATURE)
    )
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert z.grad is not None
    assert (z.grad == 0).all()


def test_huge_logits_stay_finite() -> None:
    z = torch.eye(6).repeat(2, 1).requires_grad_()
    loss = symmetric_noise_aware(z, torch.arange(12) % 6, 1e-4)
    loss.backward()  # type: ignore[no-untyped-call]
    assert z.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


def test_levels_add_up_as_weighted() -> None:
    generator = torch.Generator().manual_seed(3)
    tracklets = torch.randn(6, 4, generator=generator)
    frames = torch.randn(18, 4, generator=generator)  # three frames per fragment
    bag = torch.tensor([0, 0, 0, 1, 1, 1])
    anchor = torch.tensor([True, False, False] * 2)
    of_frames, fragment = bag.repeat_interleave(3), torch.arange(6).repeat_interleave(3)
    expected = {
        "tracklet": symmetric_noise_aware(tracklets, bag, TEMPERATURE),
        "frame": symmetric_noise_aware(frames, of_frames, TEMPERATURE),
        "within": symmetric_noise_aware(frames, fragment, TEMPERATURE),
    }
    for weights in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0.5, 2, 3)):
        config = NoiseAwareLoss(
            temperature=TEMPERATURE, tracklet=weights[0], frame=weights[1], within=weights[2]
        )
        found = multi_level_loss(config, tracklets, frames, bag, anchor)
        total = sum(w * e.item() for w, e in zip(weights, expected.values(), strict=True))
        assert found.item() == pytest.approx(total, rel=1e-5)
    masked = NoiseAwareLoss(temperature=TEMPERATURE, tracklet=0, mask_fragment=True)
    assert multi_level_loss(masked, tracklets, frames, bag, anchor).item() == pytest.approx(
        naive_symmetric(frames, of_frames.tolist(), fragment.tolist()), rel=1e-5
    )
    text = NoiseAwareLoss(temperature=TEMPERATURE, form="anchored")
    assert multi_level_loss(text, tracklets, frames, bag, anchor).item() == pytest.approx(
        naive_anchored(tracklets, bag.tolist(), anchor.tolist())
        + naive_anchored(frames, of_frames.tolist(), anchor.repeat_interleave(3).tolist()),
        rel=1e-5,
    )


def loop_rows(z: torch.Tensor, bag: list[int], form: str) -> torch.Tensor:
    """Both forms as differentiable loops, one exponential at a time."""
    u, anchor, rows = [row / row.norm() for row in z], anchors(bag), []

    def e(a: int, b: int) -> torch.Tensor:
        return torch.exp(u[a] @ u[b] / TEMPERATURE)

    for a in range(len(bag)):
        if form == "symmetric":
            own = [e(a, p) for p in range(len(bag)) if p != a and bag[p] == bag[a]]
            foreign = [e(a, q) for q in range(len(bag)) if bag[q] != bag[a]]
        else:
            members = [k for k in range(len(bag)) if bag[k] == bag[a] and not anchor[k]]
            others = [j for j in range(len(bag)) if anchor[j] and bag[j] != bag[a]]
            own = [e(k, a) for k in members] if anchor[a] else []
            foreign = [e(k, j) for j in others for k in members]
        if own:
            above = torch.stack(own).sum()
            rows.append(-torch.log(above / (above + torch.stack(foreign).sum())))
    return torch.stack(rows).mean()


@pytest.mark.parametrize("form", ["symmetric", "anchored"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_value_and_gradient_equal_the_loops(form: str, dtype: torch.dtype) -> None:
    z, bag = ragged(1, dtype)
    left, right = z.clone().requires_grad_(), z.double().requires_grad_()
    bags, anchor = torch.tensor(bag), torch.tensor(anchors(bag))
    ours = (
        symmetric_noise_aware(left, bags, TEMPERATURE)
        if form == "symmetric"
        else anchored_noise_aware(left, bags, anchor, TEMPERATURE)
    )
    naive = loop_rows(right, bag, form)
    torch.testing.assert_close(ours.double(), naive, atol=1e-6, rtol=1e-6)
    (slope,) = torch.autograd.grad(ours, left)
    (wanted,) = torch.autograd.grad(naive, right)
    torch.testing.assert_close(slope.double(), wanted, atol=1e-6, rtol=1e-6)
