"""Values that a recipe refuses."""

import re

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.recipes.by_name import find_recipe, override


@pytest.mark.parametrize(
    ("recipe", "change", "message"),
    [
        ("ntssl", "bags.tau_min=0", "bags.tau_min is 0.0"),
        ("ntssl", "bags.tau_min=13", "give 0 < tau_min <= tau_max"),
        ("ntssl", "bags.k=0", "bags.k is 0"),
        ("ntssl", "validation.views=1", "validation.views is 1"),
        ("ntssl", "validation.every=-1", "validation.every is -1"),
        ("ntssl", "validation.tau=0", "validation.tau is 0.0"),
        ("ntssl", "optim.bags_per_batch=1", "give 2 or more"),
        ("ntssl", "optim.epochs=0", "optim.epochs is 0"),
        ("ntssl", "optim.rate=0", "optim.rate is 0.0"),
        ("ntssl", "optim.weight_decay=-1", "optim.weight_decay is -1.0"),
        ("ntssl", "optim.accumulate=0", "optim.accumulate is 0"),
        ("ntssl", "validation.patience=-1", "validation.patience is -1"),
        ("ntssl", "augment.flip=2", "augment.flip is 2.0; give one from 0 to 1"),
        ("ntssl", "augment.hue=1", "augment.hue is 1.0; give one from 0 to 0.5"),
        ("ntssl", "loss.temperature=0", "loss.temperature is 0.0"),
        ("ntssl", "loss.frame=-1", "set none below 0 and one above"),
        ("ntssl", "encoder.std=[0, 1, 1]", "encoder.std is"),
        ("ntssl", "fragment_length=0", "fragment_length is 0"),
        ("ntssl", "seed=-1", "seed is -1"),
        ("ntssl", "prepare.size=abc", "prepare.size=abc does not fit"),
        ("ntssl", "prepare.crop_factor=abc", "prepare.crop_factor=abc does not fit"),
        ("sfe", "bags.deviation=0", "bags.deviation is 0"),
        ("sfe", "bags.window=0", "bags.window is 0"),
        ("mve", "bags.longest=0", "bags.longest is 0"),
        ("tpc", "bags.longest=0", "bags.longest is 0"),
        ("tpc", "bags.alpha_first=2", "bags.alpha_first is 2"),
        ("supervised", "bags.views=1", "bags.views is 1"),
        ("supervised", "loss.temperature=0", "loss.temperature is 0"),
        ("temporally-aware", "loss.decay=-1", "loss.decay is -1"),
        ("intra-inter", "loss.gamma=-1", "loss.gamma is -1"),
        ("sfe", "loss.temperature=0", "loss.temperature is 0"),
        ("ntssl", "augment.degrees=181", "augment.degrees is 181"),
        ("ntssl", "augment.scale=0.95", "augment.scale is 0.95"),
    ],
)
def test_invalid_values_of_a_recipe_are_refused(recipe: str, change: str, message: str) -> None:
    with pytest.raises(PolyplinkError, match=re.escape(message)):
        override(find_recipe(recipe), [change])
