"""Fields of recipes set by name, and the values that they refuse."""

import re
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import REFERENCE_MEAN, REFERENCE_STD
from polyplink.recipes.by_name import RECIPES, field_names, find_recipe, override, type_text
from polyplink.recipes.ntssl import ntssl


def test_fields_of_every_depth_can_be_set() -> None:
    changed = override(
        ntssl(),
        [
            "loss.temperature=0.1",
            "prepare.crop_factor=none",
            "encoder.frame_weights=a/b.safetensors",
            "seed=7",
            "part=2",
            "init_from=20261127",
            'validation.part="3"',
            "encoder.mean=[0.5, 0.4, 0.3]",
        ],
    )
    assert changed.loss.temperature == 0.1
    assert changed.prepare.crop_factor is None
    assert changed.encoder.frame_weights == Path("a/b.safetensors")
    assert changed.seed == 7
    assert (changed.part, changed.validation.part) == ("2", "3")
    assert changed.init_from == Path("20261127")
    assert changed.encoder.mean == (0.5, 0.4, 0.3)
    assert ntssl().loss.temperature == 0.07  # the recipe is unchanged


def test_an_encoder_of_another_kind_has_its_own_pixel_scale_unless_one_was_chosen() -> None:
    sets = ["encoder.kind=foundation", "encoder.model=dinov2-s"]
    encoder = override(find_recipe("ntssl-demo"), sets).encoder
    assert (encoder.mean, encoder.std, encoder.projector_hidden) == (None, None, 256)
    chosen = override(find_recipe("ntssl-demo"), ["encoder.mean=[0.5,0.4,0.3]", *sets]).encoder
    assert (chosen.mean, chosen.std) == ((0.5, 0.4, 0.3), None)
    frames = override(find_recipe("endofm-supervised"), ["encoder.kind=sfe"]).encoder
    assert (frames.mean, frames.std) == (REFERENCE_MEAN, REFERENCE_STD)


def test_a_field_of_any_number_of_values_is_not_called_one_of_two() -> None:
    recipe = find_recipe("sfe")
    texts = {field: type_text(recipe, f"encoder.{field}") for field in ("stages", "rings", "mean")}
    assert texts == {
        "stages": "any number of int",
        "rings": "any number of float",
        "mean": "3 of float",
    }


def test_no_number_of_a_recipe_may_be_negative_or_not_finite() -> None:
    tried = set()
    for recipe in (find_recipe(name) for name in RECIPES):
        for field in field_names(recipe):
            kind = type_text(recipe, field)
            if (field, kind) in tried or not re.search(r"\b(float|int)\b", kind):
                continue
            tried.add((field, kind))
            for value in ("NaN", "Infinity", "-1"):
                text = f"[{value}, 0.5, 0.5]" if kind.startswith("3 of") else value
                if (field, value) == ("encoder.mean", "-1"):
                    continue
                with pytest.raises(PolyplinkError, match=re.escape(field.rpartition(".")[2])):
                    override(recipe, [f"{field}={text}"])
    assert len(tried) > 50


OUT_OF_RANGE = {
    "ntssl": (
        *("bags.tau_min=0", "bags.k=0", "validation.views=1", "validation.tau=0", "optim.epochs=0"),
        *("optim.rate=0", "optim.accumulate=0", "augment.flip=2", "augment.degrees=181"),
        *("augment.scale=0.95", "loss.temperature=0", "encoder.std=[0, 1, 1]", "fragment_length=0"),
    ),
    "sfe": ("bags.deviation=0", "bags.window=0", "loss.temperature=0"),
    "mve": ("bags.longest=0",),
    "tpc": ("bags.longest=0", "bags.alpha_first=2"),
    "supervised": ("bags.views=1", "loss.temperature=0"),
}


@pytest.mark.parametrize(
    ("recipe", "assignment"),
    [(recipe, assignment) for recipe, refused in OUT_OF_RANGE.items() for assignment in refused],
)
def test_values_out_of_range_are_refused(recipe: str, assignment: str) -> None:
    field = re.escape(assignment.partition("=")[0])
    with pytest.raises(PolyplinkError, match=rf"^{field} is .*; give "):
        override(find_recipe(recipe), [assignment])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("augment.hue=1", "augment.hue is 1.0; give one from 0 to 0.5"),
        ("seed=3000000000", "give 2147483647 or less"),
        ("optim.bags_per_batch=1", "give 2 or more"),
        ("loss.tracklet=0 loss.frame=0", "are all 0; set one above 0"),
        ("bags.tau_min=13", "give 0 < tau_min <= tau_max"),
        ("loss.temprature=1", "did you mean loss.temperature?"),
        ("loss.form=cubic", "loss.form=cubic does not fit"),
        ("optim.epochs=many", "optim.epochs=many does not fit"),
        ("prepare.crop_factor=abc", "prepare.crop_factor=abc does not fit"),
        ("seed", "write NAME=VALUE"),
        ("loss=1", "has no field 'loss'"),
        ("qqq=1", "the names are: name, encoder.frame_encoder"),
        ("prepare.stride=0", "stride is 0; give 1 or more"),
        ("prepare.min_length=0", "min_length is 0; give 1 or more"),
        ("prepare.max_gap=0", "max_gap is 0; give 1 or more"),
        ("prepare.min_iou=2", "min_iou is 2.0; give one from 0 to 1"),
        ("prepare.crop_factor=0", "crop_factor is 0.0; give one above 0"),
        ("prepare.tracks.high=1.2", "high is 1.2; give one from 0 to 1"),
    ],
)
def test_invalid_assignments_are_refused_with_a_remedy(assignment: str, message: str) -> None:
    with pytest.raises(PolyplinkError, match=re.escape(message)):
        override(ntssl(), assignment.split())
