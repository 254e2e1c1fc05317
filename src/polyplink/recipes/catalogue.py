"""Recipes by their command-line names."""

from collections.abc import Callable

from polyplink.core.errors import find_named
from polyplink.learn import TrainConfig
from polyplink.recipes.earlier import (
    mve,
    sfe,
    sfe_uniform,
    tpc,
)
from polyplink.recipes.ntssl import (
    ntssl,
    ntssl_demo,
    ntssl_fixed,
    ntssl_frame,
    ntssl_nearest,
    ntssl_text,
    ntssl_tracklet,
)
from polyplink.recipes.small import (
    intra_inter_small,
    mve_small,
    ntssl_small,
    sfe_small,
    supervised_small,
    temporally_aware_small,
    tpc_small,
)
from polyplink.recipes.supervised import (
    endofm_intra_inter,
    endofm_supervised,
    endofm_temporally_aware,
    intra_inter,
    supervised,
    temporally_aware,
    temporally_aware_2x28,
    temporally_aware_4x14,
    temporally_aware_7x8,
    temporally_aware_28x2,
)

RECIPES: dict[str, Callable[[], TrainConfig]] = {
    recipe().name: recipe
    for recipe in (
        ntssl,
        ntssl_text,
        ntssl_nearest,
        ntssl_fixed,
        ntssl_frame,
        ntssl_tracklet,
        ntssl_demo,
        sfe,
        sfe_uniform,
        mve,
        tpc,
        supervised,
        temporally_aware,
        temporally_aware_2x28,
        temporally_aware_4x14,
        temporally_aware_7x8,
        temporally_aware_28x2,
        intra_inter,
        endofm_supervised,
        endofm_temporally_aware,
        endofm_intra_inter,
        ntssl_small,
        sfe_small,
        mve_small,
        tpc_small,
        supervised_small,
        temporally_aware_small,
        intra_inter_small,
    )
}


def find_recipe(name: str) -> TrainConfig:
    """A recipe by name.

    Raises:
        PolyplinkError: If there is none, naming the nearest or all.
    """
    return find_named("recipe", name, RECIPES)()
