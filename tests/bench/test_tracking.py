import pytest

from polyplink.bench.tracking import agree, run, run_general, synthetic_tracklets, trackeval_figures
from polyplink.evaluate.tracking_table import look_at, true_and_found


@pytest.mark.parametrize("bench", [run, run_general])
def test_tracking_is_measured_and_equal(bench: object) -> None:
    result = bench(1200)  # type: ignore[operator]
    assert result.equal
    assert result.name in ("tracking", "tracking-general")


def test_the_rival_is_not_agreed_with_by_default() -> None:
    tracklets, labels = synthetic_tracklets(600, touching=True)
    truth = look_at("v", tracklets)
    scene = true_and_found(tracklets, truth.tracks(labels).track)
    figures = trackeval_figures(scene)
    assert agree(truth.score(labels).counts, figures)
    assert not agree(truth.score(labels * 0).counts, figures)
