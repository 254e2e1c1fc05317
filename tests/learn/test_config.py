"""The fields of a recipe."""

from polyplink.artefacts import to_plain
from polyplink.learn import TrainConfig


def test_defaults_are_the_reference_and_plain_values() -> None:
    plain = to_plain(TrainConfig(name="x"))
    assert plain["bags"] == {
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
    }
    assert plain["validation"]["select"] == "labels"
