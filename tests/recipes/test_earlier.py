"""The earlier methods' recipes hold their papers' figures."""

from polyplink.encoders import MveConfig, SfeConfig
from polyplink.learn import FramePairs, NtXentLoss, PolypParts, TrackletParts
from polyplink.recipes.earlier import mve, sfe, sfe_uniform, tpc


def test_sfe_pairs_frames_at_thirty_frames() -> None:
    recipe = sfe()
    assert isinstance(recipe.encoder, SfeConfig)
    assert (recipe.encoder.projector_hidden, recipe.encoder.projector_out) == (2048, 128)
    assert recipe.bags == FramePairs(distance="gaussian", deviation=30.0)
    assert recipe.loss == NtXentLoss(temperature=0.07)
    assert recipe.prepare.stride == 1
    assert (recipe.optim.method, recipe.optim.schedule) == ("adam", "one_cycle")
    assert recipe.augment.moves
    assert recipe.augment.recolours
    assert sfe_uniform().bags == FramePairs(distance="uniform")


def test_mve_pairs_parts_and_tpc_adds_its_curriculum() -> None:
    recipe = mve()
    assert isinstance(recipe.encoder, MveConfig)
    assert (recipe.bags, recipe.fragment_length) == (TrackletParts(longest=4), 8)
    assert recipe.validation.select == "bags"  # no label enters
    assert tpc().bags == PolypParts(longest=4, alpha_first=1.0, alpha_last=0.0)
    assert tpc().encoder == recipe.encoder
