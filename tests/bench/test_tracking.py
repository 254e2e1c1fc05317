import numpy as np
import pytest

from polyplink.bench.tracking import agree, run, run_general, synthetic_tracklets, trackeval_figures
from polyplink.evaluate.tracking import TrackingTruth, true_and_found


@pytest.mark.parametrize("bench", [run, run_general])
def test_tracking_is_measured_and_equal(bench: object) -> None:
    result = bench(1200)  # type: ignore[operator]
    assert result.equal
    assert result.name in ("tracking", "tracking-general")


def test_the_rival_is_not_agreed_with_by_default() -> None:
    tracklets, labels = synthetic_tracklets(600, touching=True)
    truth = TrackingTruth.of("v", tracklets)
    found = truth.score(np.stack([labels, labels * 0]))
    figures = trackeval_figures(true_and_found(tracklets, found.track[0]))
    assert agree(found.counts.take(0), figures)
    assert not agree(found.counts.take(1), figures)
