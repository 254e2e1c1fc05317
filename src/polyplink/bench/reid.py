"""Re-identification figures over all pairs of tracklets, against torchmetrics."""

from collections.abc import Callable

import numpy as np

from polyplink.associate import cosine
from polyplink.bench.harness import BenchResult, against, best_of, growth, most_memory
from polyplink.bench.made import made_tracklets
from polyplink.core._torchvision import heal_torchvision
from polyplink.evaluate import Samples, reidentify

TRACKLETS = 6_000  # 18 million pairs
CLOSE = 1e-5  # torchmetrics integrates in float32


def torchmetrics_areas(vectors: np.ndarray, samples: Samples) -> tuple[float, float]:
    """The rival: AUROC and average precision of torchmetrics over all pairs i < j."""
    # Imported when used: both are heavy, and the second is an extra.
    heal_torchvision()
    import torch  # noqa: PLC0415
    from torchmetrics.functional.classification import (  # noqa: PLC0415
        binary_auroc,
        binary_average_precision,
    )

    pairs = np.triu_indices(len(vectors), k=1)
    # To [0, 1], or torchmetrics would take them for logits and squeeze them.
    scores = torch.from_numpy((cosine(vectors)[pairs] + 1.0) / 2.0)
    same = torch.from_numpy(samples.polyp[pairs[0]] == samples.polyp[pairs[1]]).long()
    return float(binary_auroc(scores, same)), float(binary_average_precision(scores, same))


def _call(size: int) -> Callable[[], object]:
    vectors, samples = made_tracklets(size)
    return lambda: reidentify(vectors, samples)


def run(size: int = TRACKLETS) -> BenchResult:
    """Measure `reidentify`: AUROC, AUPR and the counts of the bootstrap; size is tracklets.

    Both start from vectors; 32 tracklets at least. The rival makes no counts.
    """
    vectors, samples = made_tracklets(size)
    found = reidentify(vectors, samples)  # compiles, once per machine
    theirs: list[tuple[float, float]] = []
    torchmetrics_areas(*made_tracklets(32))  # imports
    rival_s = best_of(lambda: theirs.append(torchmetrics_areas(vectors, samples)), 1)
    ours = np.array([found.auroc, found.aupr], dtype=np.float64)  # NaN where there is none
    return against(
        "reid",
        "torchmetrics",
        size,
        ours_s=best_of(lambda: reidentify(vectors, samples), 5),
        rival_s=rival_s,
        exponent=growth(_call, size, 2),
        equal=bool(np.allclose(ours, theirs[0], rtol=0, atol=CLOSE)),
        peak_mb=most_memory(lambda: reidentify(vectors, samples)),
    )
