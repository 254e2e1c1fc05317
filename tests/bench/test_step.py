import pytest
import torch

from polyplink.bench.step import LENGTH, MEMBERS, SMALL, Stepper, gap, run


@pytest.fixture
def stepper() -> Stepper:
    return Stepper(SMALL, torch.device("cpu"))


def test_a_step_is_measured_and_equal() -> None:
    result = run(8)
    assert (result.name, result.size, result.equal) == ("step", 8, True)
    assert result.rate is not None


def test_a_batch_is_the_crops_of_its_fragments(stepper: Stepper) -> None:
    rows = stepper.draw(3)
    assert rows.shape == (3 * MEMBERS * LENGTH,)
    assert torch.equal(stepper.load(rows)[7], stepper.crops[int(rows[7])])


def test_the_loss_is_that_of_the_plain_path_until_the_loader_errs(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gap(stepper, 3) < 1e-4
    load = stepper.load
    monkeypatch.setattr(
        stepper, "load", lambda rows: load(rows) * (torch.arange(len(rows)) < 40).view(-1, 1, 1, 1)
    )
    assert gap(stepper, 3) > 1e-4


def test_a_step_moves_the_weights(stepper: Stepper) -> None:
    before = stepper.parameters[0].detach().clone()
    stepper.step(stepper.load(stepper.draw(2)))
    assert not torch.equal(before, stepper.parameters[0])
