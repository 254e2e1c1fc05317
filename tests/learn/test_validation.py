"""What the held-out procedures decide."""

import math

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.learn.config import TrainConfig, ValidationConfig
from polyplink.learn.validation import NOTHING, check_selection, is_best, is_over
from tests.learn.sets import bare_set


def rows(*losses: float) -> list[dict[str, float]]:
    return [{"loss_bags": loss, "loss_labels": math.nan} for loss in losses]


def test_the_best_has_the_lowest_loss_that_is_a_number() -> None:
    assert is_best(rows(1.0)[0], rows(2.0, 1.5), "bags")
    assert not is_best(rows(1.5)[0], rows(2.0, 1.5), "bags")
    assert not is_best(rows(math.nan)[0], rows(2.0), "bags")
    assert is_best(rows(9.0)[0], rows(1.0), "last")
    assert is_best(dict(NOTHING), [], "labels")


def test_patience_waits_for_so_many_epochs() -> None:
    config = ValidationConfig(select="bags", patience=2)
    assert not is_over([], config)
    assert not is_over(rows(3.0, 2.0, 2.5), config)
    assert is_over(rows(3.0, 2.0, 2.5, 2.0), config)
    assert not is_over(rows(3.0, 2.0, 2.5, 1.9), config)
    assert not is_over(rows(1.0, 2.0, 3.0, 4.0), ValidationConfig(select="bags"))


def test_patience_needs_a_loss_to_wait_for() -> None:
    with pytest.raises(PolyplinkError, match="patience needs a loss"):
        ValidationConfig(select="last", patience=3)


def test_a_choice_that_cannot_be_made_is_refused() -> None:
    labels = TrainConfig("x")
    with pytest.raises(PolyplinkError, match="no fragments to validate on"):
        check_selection(labels, None)
    with pytest.raises(PolyplinkError, match="needs two held-out polyps"):
        check_selection(labels, bare_set([16], [0]))


def test_a_choice_that_can_be_made_is_let_through() -> None:
    last = TrainConfig("x", validation=ValidationConfig(select="last"))
    check_selection(last, None)
    held = bare_set([16, 16], [0, 1])
    check_selection(TrainConfig("x"), held)
    assert len(held) == 8
