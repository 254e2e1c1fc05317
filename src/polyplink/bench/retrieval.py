"""Retrieval figures over all tracklets, against torchmetrics."""

from collections.abc import Callable

import numpy as np

from polyplink.associate import cosine
from polyplink.bench.harness import BenchResult, against, best_of, growth, most_memory
from polyplink.bench.made import made_tracklets
from polyplink.core._torchvision import heal_torchvision
from polyplink.evaluate import Evaluation, EvaluationSettings, Samples, evaluate_embeddings

TRACKLETS = 4_000
CLOSE = 1e-6  # torchmetrics sums in float32


def torchmetrics_figures(vectors: np.ndarray, samples: Samples) -> tuple[float, float, float]:
    """The rival: mAP, HR@1 and HR@5 of torchmetrics, every query against all others."""
    # Imported when used: both are heavy, and the second is an extra.
    heal_torchvision()
    import torch  # noqa: PLC0415
    from torchmetrics.retrieval import RetrievalHitRate, RetrievalMAP  # noqa: PLC0415

    n = len(vectors)
    others = ~np.eye(n, dtype=bool)
    # Lifted above 0: torchmetrics leaves out matches whose score is 0 or less.
    scores = torch.from_numpy(cosine(vectors)[others] + 2.0)
    match = torch.from_numpy((samples.polyp[:, None] == samples.polyp[None, :])[others])
    query = torch.arange(n).repeat_interleave(n - 1)
    metrics = [
        RetrievalMAP(empty_target_action="skip"),
        RetrievalHitRate(empty_target_action="skip", top_k=1),
        RetrievalHitRate(empty_target_action="skip", top_k=5),
    ]
    found = [float(metric(scores, match, indexes=query)) for metric in metrics]
    return found[0], found[1], found[2]


def _call(size: int) -> Callable[[], Evaluation]:
    """What `polyplink evaluate --task retrieval` does with vectors, intervals and tables too."""
    vectors, samples = made_tracklets(size)
    settings = EvaluationSettings(tasks=("retrieval",), without_own=True)
    return lambda: evaluate_embeddings({"ours": vectors}, samples, settings)


def run(size: int = TRACKLETS) -> BenchResult:
    """Measure the retrieval part of `evaluate`; size is tracklets, at least 16.

    Ours is every figure of retrieval (exact, as published, without the query's own procedure) with
    its interval and the table of queries; the rival's are mAP, HR@1 and HR@5 alone. Both start from
    vectors. The peak is that of a second run, which is not timed.
    """
    vectors, samples = made_tracklets(size)
    call = _call(size)
    figures = call().encoders["ours"].figures  # compiles, once per machine
    theirs: list[tuple[float, float, float]] = []
    torchmetrics_figures(*made_tracklets(32))  # imports
    rival_s = best_of(lambda: theirs.append(torchmetrics_figures(vectors, samples)), 1)
    ours = np.array([figures[name].value for name in ("mAP", "HR@1", "HR@5")], dtype=np.float64)
    return against(
        "retrieval",
        "torchmetrics",
        size,
        ours_s=best_of(call, 5),
        rival_s=rival_s,
        exponent=growth(_call, size, 2),
        equal=bool(np.allclose(ours, theirs[0], rtol=0, atol=CLOSE)),
        peak_mb=most_memory(call),
    )
