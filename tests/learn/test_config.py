"""The fields of a recipe."""

import re

import pytest

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.learn import TrainConfig
from polyplink.recipes import find_recipe, ntssl, override


def test_defaults_are_the_reference_and_plain_values() -> None:
    plain = to_plain(TrainConfig(name="x"))
    assert plain["bags"] == {
        "kind": "temporal",
        "k": 4,
        "sampling": "exponential",
        "tau_min": 0.3,
        "tau_max": 12.0,
    }
    assert plain["optim"] == {
        "epochs": 50,
        "bags_per_batch": 12,
        "rate": 1e-5,
        "weight_decay": 1e-4,
        "method": "adamw",
        "schedule": "constant",
        "warm_up": 0.3,
        "accumulate": 1,
        "checkpointing": False,
    }
    assert plain["loss"]["kind"] == "noise_aware"
    assert set(plain["augment"].values()) == {0.0}
    assert plain["validation"]["select"] == "labels"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("bags.tau_min=0", "bags.tau_min is 0.0"),
        ("bags.tau_min=13", "give 0 < tau_min <= tau_max"),
        ("bags.k=0", "bags.k is 0"),
        ("validation.views=1", "validation.views is 1"),
        ("validation.every=-1", "validation.every is -1"),
        ("validation.tau=0", "validation.tau is 0.0"),
        ("optim.bags_per_batch=1", "give 2 or more"),
        ("optim.epochs=0", "optim.epochs is 0"),
        ("optim.rate=0", "optim.rate is 0.0"),
        ("optim.weight_decay=-1", "optim.weight_decay is -1.0"),
        ("optim.accumulate=0", "optim.accumulate is 0"),
        ("validation.patience=-1", "validation.patience is -1"),
        ("augment.flip=2", "augment.flip is 2.0; give one from 0 to 1"),
        ("augment.hue=1", "augment.hue is 1.0; give one from 0 to 0.5"),
        ("loss.temperature=0", "loss.temperature is 0.0"),
        ("loss.frame=-1", "give none below 0 and one above"),
        ("encoder.heads=3", "no multiple of encoder.heads 3"),
        ("encoder.layers=0", "encoder.layers is 0"),
        ("encoder.dropout=1", "encoder.dropout is 1.0"),
        ("encoder.std=[0, 1, 1]", "encoder.std is"),
        ("fragment_length=0", "fragment_length is 0"),
        ("seed=-1", "seed is -1"),
        ("prepare.size=abc", "prepare.size=abc does not fit"),
        ("prepare.crop_factor=abc", "prepare.crop_factor=abc does not fit"),
    ],
)
def test_values_that_would_train_in_silence_on_nonsense_are_refused(change: str, says: str) -> None:
    with pytest.raises(PolyplinkError, match=re.escape(says)):
        override(ntssl(), [change])


@pytest.mark.parametrize(
    ("recipe", "change"),
    [
        ("sfe", "bags.deviation=0"),
        ("sfe", "bags.window=0"),
        ("mve", "bags.longest=0"),
        ("tpc", "bags.longest=0"),
        ("tpc", "bags.alpha_first=2"),
        ("supervised", "bags.views=1"),
        ("supervised", "loss.temperature=0"),
        ("temporally-aware", "loss.decay=-1"),
        ("intra-inter", "loss.gamma=-1"),
        ("sfe", "loss.temperature=0"),
        ("ntssl", "augment.degrees=181"),
        ("ntssl", "augment.scale=0.95"),
    ],
)
def test_values_of_other_methods_are_refused(recipe: str, change: str) -> None:
    with pytest.raises(PolyplinkError, match=re.escape(change.replace("=", " is "))):
        override(find_recipe(recipe), [change])
