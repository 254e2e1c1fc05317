"""The thesis's setting of EndoFM."""

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig
from polyplink.learn import IntraInterLoss, PolypViews, SupervisedLoss, TemporallyAwareLoss
from polyplink.recipes.endofm import (
    endofm_intra_inter,
    endofm_supervised,
    endofm_temporally_aware,
    endofm_with,
)


def test_the_thesis_setting() -> None:
    losses = (SupervisedLoss(), TemporallyAwareLoss(), IntraInterLoss())
    recipes = (endofm_supervised(), endofm_temporally_aware(), endofm_intra_inter())
    for recipe, loss in zip(recipes, losses, strict=True):
        assert recipe.loss == loss
        assert loss.temperature == 0.25
        assert isinstance(recipe.encoder, FoundationConfig)
        assert recipe.encoder.model == "endofm"
        assert recipe.bags == PolypViews(views=4)
        assert recipe.optim.bags_per_batch * 4 == 8
        assert (recipe.optim.epochs, recipe.optim.rate, recipe.optim.weight_decay) == (
            50,
            1e-5,
            1e-4,
        )
        assert (recipe.prepare.size, recipe.prepare.stride, recipe.fragment_length) == (224, 4, 8)


def test_two_views_make_four_polyps_and_three_do_not_divide() -> None:
    assert endofm_with("x", SupervisedLoss(), views=2).optim.bags_per_batch == 4
    with pytest.raises(PolyplinkError, match="3 views per polyp do not divide a batch of 8"):
        endofm_with("x", SupervisedLoss(), views=3)
