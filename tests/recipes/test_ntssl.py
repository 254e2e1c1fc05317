"""The paper's recipe holds the paper's figures."""

from polyplink.encoders import EncoderConfig
from polyplink.learn import NoiseAwareLoss, TemporalBags
from polyplink.recipes import ntssl
from polyplink.recipes.ntssl import (
    ntssl_fixed,
    ntssl_frame,
    ntssl_nearest,
    ntssl_text,
    ntssl_tracklet,
)


def test_the_papers_setting() -> None:
    recipe = ntssl()
    assert isinstance(recipe.bags, TemporalBags)
    assert isinstance(recipe.encoder, EncoderConfig)
    assert isinstance(recipe.loss, NoiseAwareLoss)
    assert (recipe.bags.k, recipe.bags.tau_min, recipe.bags.tau_max) == (4, 0.3, 12.0)
    assert (recipe.optim.epochs, recipe.optim.rate, recipe.optim.weight_decay) == (50, 1e-5, 1e-4)
    assert recipe.optim.bags_per_batch * (1 + recipe.bags.k) == 60  # the paper's batch
    encoder = recipe.encoder
    assert (encoder.width, encoder.layers, encoder.heads, encoder.feedforward) == (256, 3, 8, 1024)
    assert (encoder.projector_hidden, encoder.projector_out, encoder.dropout) == (256, 128, 0.1)
    assert (encoder.mean, encoder.std) == ((0.45,) * 3, (0.225,) * 3)
    prepare = recipe.prepare
    assert (prepare.min_length, prepare.stride, prepare.size, prepare.crop_factor) == (
        30,
        4,
        232,
        5.0,
    )
    loss = recipe.loss
    assert (loss.form, loss.temperature, loss.tracklet, loss.frame, loss.within) == (
        "symmetric",
        0.07,
        1.0,
        1.0,
        0.0,
    )
    assert recipe.fragment_length == 8


def test_the_ablations_change_one_thing_each() -> None:
    plain = ntssl()
    for recipe, changed in (
        (ntssl_text(), "loss"),
        (ntssl_frame(), "loss"),
        (ntssl_tracklet(), "loss"),
        (ntssl_nearest(), "bags"),
        (ntssl_fixed(), "bags"),
    ):
        different = {
            field for field in vars(plain) if getattr(plain, field) != getattr(recipe, field)
        }
        assert different == {"name", changed}
