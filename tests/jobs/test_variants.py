import numpy as np
import pytest

from polyplink.associate import demo_grid
from polyplink.core.errors import PolyplinkError
from polyplink.jobs.measured import Asked
from polyplink.jobs.variants import (
    Variant,
    boxes_of,
    compare_variants,
    fragment_samples,
    loaded_subject,
)
from polyplink.tracklets import prepare
from tests.conftest import Made, recipe

ASKED = Asked(demo_grid(), resamples=50)


def test_crops_and_clips_are_measured_side_by_side(made: Made) -> None:
    subject = loaded_subject(made.run, "cpu")
    variants = [Variant(1.0, None), Variant(None, 4), Variant(2.0, 90)]
    rows = compare_variants(
        subject, made.data, "eval", variants, ["mAP", "AUROC"], asked=ASKED, workers=1
    )
    assert [variant for variant, _ in rows] == variants
    for _, found in rows[:2]:
        assert found["mAP"].value is not None
        assert 0.0 <= found["mAP"].value <= 1.0
    assert "no tracklet has 90 crops" in rows[2][1]["AUROC"].why
    with pytest.raises(PolyplinkError, match="no tracklet has 90 crops"):
        compare_variants(subject, made.data, "eval", variants[2:], ["mAP"], asked=ASKED, workers=1)


def test_words_say_what_is_seen() -> None:
    assert Variant(None, None).words == "full frame, whole tracklets"
    assert Variant(5.0, 8).words == "psi 5, fragments of 8"


def test_fragments_are_of_their_tracklets_polyps_and_boxes_are_the_tracklets(made: Made) -> None:
    prepared = prepare(made.data, recipe().prepare, workers=1).part("eval")
    samples = fragment_samples(prepared, 4)
    assert len(samples.tracklet_ids) == 2 * len(prepared.tracklets)
    whole = fragment_samples(prepared, 8)
    assert np.bincount(whole.polyp).tolist() == [3, 3]
    table = boxes_of(prepared, whole)(0)
    assert table.sizes.tolist() == prepared.tracklets["n"].to_list()
    assert table.box[0].tolist() == [10.0, 8.0, 16.0, 12.0]
