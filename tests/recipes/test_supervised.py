"""The supervised recipes hold their papers' figures."""

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.learn import IntraInterLoss, PolypViews, SupervisedLoss, TemporallyAwareLoss
from polyplink.recipes.supervised import (
    intra_inter,
    polyps_in,
    supervised,
    temporally_aware,
    temporally_aware_2x28,
    temporally_aware_4x14,
    temporally_aware_7x8,
    temporally_aware_28x2,
)


def test_a_batch_is_56_views_however_it_is_shared() -> None:
    for recipe in (
        temporally_aware(),
        temporally_aware_2x28(),
        temporally_aware_4x14(),
        temporally_aware_7x8(),
        temporally_aware_28x2(),
    ):
        assert isinstance(recipe.bags, PolypViews)
        assert recipe.bags.views * recipe.optim.bags_per_batch == 56
        assert recipe.loss == TemporallyAwareLoss(temperature=0.25, decay=1.0)
    assert temporally_aware().bags == PolypViews(views=14)


def test_a_batch_that_does_not_divide_is_refused() -> None:
    assert polyps_in(56, 14) == 4
    with pytest.raises(PolyplinkError, match="5 views per polyp do not divide a batch of 56"):
        polyps_in(56, 5)


def test_the_others_differ_in_the_loss_alone() -> None:
    assert supervised().loss == SupervisedLoss(temperature=0.25)
    assert intra_inter().loss == IntraInterLoss(temperature=0.25, decay=1.0, gamma=0.2)
    assert supervised().encoder == intra_inter().encoder == temporally_aware().encoder
