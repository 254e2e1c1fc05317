"""Recipes: the settings of their papers, their names and their small siblings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch.nn.functional import interpolate

from polyplink.core.artefacts import to_plain
from polyplink.encoders.config import EncoderConfig, FoundationConfig, MveConfig, SfeConfig
from polyplink.learn.bags import rng_of
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.pairs import FramePairs, PolypParts, TrackletParts
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.soft_targets import (
    IntraInterLoss,
    NtXentLoss,
    SupervisedLoss,
    TemporallyAwareLoss,
)
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import RECIPES, find_recipe, override
from polyplink.recipes.earlier import mve, sfe, sfe_uniform, tpc
from polyplink.recipes.ntssl import (
    ntssl,
    ntssl_fixed,
    ntssl_frame,
    ntssl_nearest,
    ntssl_text,
    ntssl_tracklet,
)
from polyplink.recipes.small import FRAMES, small_sibling
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
from polyplink.tracklets.crops import cut, enlarge
from tests.learn.sets import bare_set


def test_every_recipe_is_registered_by_its_name_and_documents_its_command() -> None:
    assert {"ntssl", "ntssl-demo", "sfe", "mve", "tpc", "supervised"} <= set(RECIPES)
    for name, recipe in RECIPES.items():
        assert recipe().name == name == find_recipe(name).name
        assert recipe.__doc__
        assert f"Command: polyplink train {name} DATA" in recipe.__doc__


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_round_trips_through_its_record(name: str) -> None:
    recipe = find_recipe(name)
    assert TypeAdapter(TrainConfig).validate_python(to_plain(recipe)) == recipe
    assert override(recipe, [f"optim.epochs={recipe.optim.epochs}"]) == recipe


def test_ntssl_has_the_settings_of_the_paper() -> None:
    recipe = ntssl()
    assert isinstance(recipe.bags, TemporalBags)
    assert isinstance(recipe.encoder, EncoderConfig)
    assert isinstance(recipe.loss, NoiseAwareLoss)
    assert (recipe.bags.k, recipe.bags.tau_min, recipe.bags.tau_max) == (4, 0.3, 12.0)
    assert (recipe.optim.epochs, recipe.optim.rate, recipe.optim.weight_decay) == (50, 1e-5, 1e-4)
    assert recipe.optim.bags_per_batch * (1 + recipe.bags.k) == 60  # the batch of the paper
    encoder = recipe.encoder
    assert (encoder.width, encoder.layers, encoder.heads, encoder.feedforward) == (256, 3, 8, 1024)
    assert (encoder.projector_hidden, encoder.projector_out, encoder.dropout) == (256, 128, 0.1)
    assert (encoder.mean, encoder.std) == ((0.45,) * 3, (0.225,) * 3)
    prepare = recipe.prepare
    assert (prepare.min_length, prepare.stride) == (30, 4)
    assert (prepare.size, prepare.crop_factor) == (232, 5.0)
    loss = recipe.loss
    assert (loss.form, loss.temperature) == ("symmetric", 0.07)
    assert (loss.tracklet, loss.frame, loss.within) == (1.0, 1.0, 0.0)
    assert recipe.fragment_length == 8


def test_each_ablation_changes_one_part() -> None:
    paper_recipe = ntssl()
    for recipe, changed_field in (
        (ntssl_text(), "loss"),
        (ntssl_frame(), "loss"),
        (ntssl_tracklet(), "loss"),
        (ntssl_nearest(), "bags"),
        (ntssl_fixed(), "bags"),
    ):
        differences = {
            field
            for field in vars(paper_recipe)
            if getattr(paper_recipe, field) != getattr(recipe, field)
        }
        assert differences == {"name", changed_field}


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
    assert recipe.encoder == temporally_aware().encoder  # that of NTSSL: 25.6 M, as printed
    assert isinstance(override(recipe, ["encoder.kind=mve"]).encoder, MveConfig)
    assert (recipe.bags, recipe.fragment_length) == (TrackletParts(longest=4), 8)
    assert recipe.validation.select == "bags"  # uses no labels
    assert tpc().bags == PolypParts(longest=4, alpha_first=1.0, alpha_last=0.0)
    assert tpc().encoder == recipe.encoder


def test_published_rows_are_evaluated_at_stride_four() -> None:
    """As with `fragment_stride` of NTSSL's program: the same for all, however they are trained."""
    for name in [*RECIPES, "ta384-sfe", "ta384-mve", "ta384-tpc"]:
        recipe = find_recipe(name)
        assert recipe.prepare_evaluation.stride == 4
        assert replace(recipe.prepare_evaluation, stride=recipe.prepare.stride) == recipe.prepare
    assert {find_recipe(name).prepare.stride for name in ("sfe", "mve", "tpc")} == {1}
    assert override(sfe(), ["evaluation_stride=none"]).prepare_evaluation.stride == 1


def test_a_batch_of_temporally_aware_has_56_views_in_every_division() -> None:
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


def test_the_other_supervised_recipes_differ_only_in_the_loss() -> None:
    assert supervised().loss == SupervisedLoss(temperature=0.25)
    assert intra_inter().loss == IntraInterLoss(temperature=0.25, decay=1.0, gamma=0.2)
    assert supervised().encoder == intra_inter().encoder == temporally_aware().encoder


def test_recipes_of_endofm_have_the_settings_of_the_thesis() -> None:
    losses: tuple[Any, ...] = (SupervisedLoss(), TemporallyAwareLoss(), IntraInterLoss())
    recipes = (endofm_supervised(), endofm_temporally_aware(), endofm_intra_inter())
    for recipe, loss in zip(recipes, losses, strict=True):
        assert recipe.loss == loss
        assert loss.temperature == 0.25
        assert isinstance(recipe.encoder, FoundationConfig)
        assert recipe.encoder.model == "endofm"
        assert recipe.bags == PolypViews(views=4)
        assert recipe.optim == replace(ntssl().optim, bags_per_batch=2)
        assert (recipe.prepare.size, recipe.prepare.stride, recipe.fragment_length) == (224, 4, 8)
        # The program resizes full frames to 224 pixels, whatever their boxes are.
        frame = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
        (place,) = enlarge(np.array([[40.0, 30, 20, 10]]), recipe.prepare.crop_factor, 400, 300)
        pixels = torch.from_numpy(frame).permute(2, 0, 1)[None].float()
        resized = interpolate(pixels, (224, 224), mode="bilinear", antialias=True)[0]
        crop = torch.from_numpy(cut(frame, place, recipe.prepare.size).copy()).permute(2, 0, 1)
        assert (crop - resized).abs().max() <= 1.0


SMALL = [recipe() for name, recipe in RECIPES.items() if name.endswith("-small")]
# Crops of the first tracklets that the small recipes train on, by polyp (seed 0), three times.
CROPS = 3 * [
    [13, 11, 11, 8], [12, 11, 15, 15, 15], [8, 8, 8, 8], [12, 8, 13, 11, 14], [13, 8, 8, 8],
    [11, 9, 9, 12, 13, 12], [12, 14, 13, 15], [15, 15, 15], [15, 12, 15, 14, 11], [12, 15, 15],
    [8, 8, 8, 15, 8], [15, 12, 14, 12, 11], [14, 10, 15, 15], [12, 14, 15, 11, 8], [8, 9, 8],
    [11, 9, 10, 12], [15, 11, 14], [15, 13, 15, 10], [8, 14, 9], [9, 11, 10, 10, 8],
    [8, 12, 10], [12, 11, 12], [10, 12, 14, 15], [15, 9, 8], [13, 8, 8, 10, 8], [14, 15, 15, 15],
]  # fmt: skip
LENGTHS = [crops for polyp in CROPS for crops in polyp]
POLYPS = [i for i, polyp in enumerate(CROPS) for _ in polyp]
DATA = bare_set(LENGTHS, POLYPS, fragment=2)


def frames_seen(config: TrainConfig) -> tuple[int, int]:
    """Number of frames of a training, estimated from three epochs, and of its largest step."""
    size, total, step = config.optim.bags_per_batch, 0, 0
    for epoch in range(3):
        drawn = config.bags.draw(DATA, epoch / 3, size, rng_of(epoch))
        total += int(drawn.bags.valid.sum()) * drawn.clips.shape[1]
        step = max(step, int(drawn.bags.valid[:size].sum()) * drawn.clips.shape[1])
    return total * config.optim.epochs // 3, step


def test_small_recipes_train_on_nearly_the_same_number_of_frames() -> None:
    totals = {}
    assert len(SMALL) == 9
    for config in SMALL:
        assert getattr(config.encoder, "frame_encoder", "") == "timm:test_resnet"
        assert (config.prepare, config.validation) == (SMALL[0].prepare, SMALL[0].validation)
        assert config.validation.select == "last"  # labels choose no checkpoint
        totals[config.name], step = frames_seen(config)
        assert step == FRAMES, config.name
    assert min(totals.values()) > 0.9 * max(totals.values()), totals


def test_the_small_sibling_of_a_variant_keeps_its_bags_and_loss() -> None:
    for name in ("ntssl-frame", "ntssl-tracklet", "ntssl-nearest", "ntssl-fixed", "sfe-uniform"):
        recipe, sibling = find_recipe(name), small_sibling(find_recipe(name))
        assert sibling is not None
        assert (sibling.name, sibling.bags, sibling.loss) == (
            f"{name}-small",
            recipe.bags,
            recipe.loss,
        )
        method = find_recipe(f"{name.split('-')[0]}-small")
        assert (sibling.encoder, sibling.optim) == (method.encoder, method.optim)
    assert small_sibling(find_recipe("tpc")) == find_recipe("tpc-small")
    assert small_sibling(find_recipe("endofm-supervised")) is None


def test_the_small_sibling_fills_a_step_with_views() -> None:
    sibling = small_sibling(find_recipe("temporally-aware-4x14"))
    assert sibling is not None
    assert isinstance(sibling.bags, PolypViews)
    assert sibling.optim.bags_per_batch * sibling.bags.views * 2 <= FRAMES
    assert sibling.optim.bags_per_batch * (sibling.bags.views + 1) * 2 > FRAMES * 0.8


def test_published_rows_train_on_the_procedures_of_the_paper_in_tf32() -> None:
    """On a merged folder they use only the paper's 27 procedures."""
    for name in RECIPES:
        is_small = name == "ntssl-demo" or name.endswith("-small")
        recipe, expected = find_recipe(name), ("train", None) if is_small else ("rc27", "tf32")
        assert (recipe.part, recipe.optim.precision) == expected


def test_sfe_mve_and_tpc_have_the_settings_of_their_programs() -> None:
    assert sfe().optim.rate == pytest.approx(2.19e-4, abs=1e-6)  # 1e-3 x 56 pairs / 256
    assert mve().optim.rate == tpc().optim.rate == 1e-4  # the default of the program, not scaled
    assert (sfe().optim.schedule, sfe().optim.warm_up) == ("one_cycle", 0.1)
    assert (mve().optim.schedule, tpc().optim.schedule) == ("constant", "constant")
    assert (sfe().optim.weight_decay, mve().optim.weight_decay) == (1e-4, 0.0)
    kinds = ("flip", "degrees", "translate", "scale", "brightness", "contrast", "saturation", "hue")
    strengths = [getattr(sfe().augment, kind) for kind in kinds]
    assert strengths == [0.5, 15.0, 0.1, 0.1, 0.2, 0.2, 0.2, 0.1]
    assert tpc().validation.select == mve().validation.select == "bags"


@pytest.mark.parametrize(
    ("recipe", "views"),
    [
        (ntssl(), 6),
        (temporally_aware(), 16),
        (find_recipe("ta384-temporally-aware"), 16),
        (supervised(), 16),
        (endofm_supervised(), 16),
    ],
)
def test_validation_batches_equal_those_of_the_program(recipe: TrainConfig, views: int) -> None:
    validation = recipe.validation
    assert (validation.views, validation.views * (validation.bags_per_batch or 0)) == (2, views)
    assert validation.loss == ("tracklet" if recipe.name == "ntssl" else "training")
    assert validation.select == "labels"
