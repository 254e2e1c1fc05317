"""Pictures rendered on demand."""

from pathlib import Path

import numpy as np
import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.simulate import SimulatedProcedure, smoke
from polyplink.simulate.rendering import check_device, one_thread, through_jpeg, to_jpeg
from tests.simulate.conftest import Made

WIDTH, HEIGHT = smoke().width, smoke().height


@pytest.fixture(scope="module")
def procedure(made: Made) -> SimulatedProcedure:
    return SimulatedProcedure.open(made.out, "001-009")


def test_the_limit_of_threads_is_lifted_again() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt
    assert torch.get_num_threads() == before


def test_crops_are_compressed(procedure: SimulatedProcedure) -> None:
    frames, edges = np.array([40, 41]), np.array([[0, 0, 32, 32], [4, 8, 44, 48]])
    plain = procedure.windows(frames, edges, (24, 24))
    crops = procedure.crops(frames, edges, 24)
    assert crops.dtype == np.uint8
    assert np.array_equal(crops, procedure.crops(frames, edges, 24, threads=2))
    for one, other in zip(crops, plain, strict=True):
        assert np.array_equal(one, through_jpeg(other))
        assert not np.array_equal(one, other)


def test_the_frames_on_disk_are_those_rendered_again(
    made: Made, procedure: SimulatedProcedure
) -> None:
    path = made.out / "001-009_frames" / "001-009_77.jpg"
    assert path.read_bytes() == to_jpeg(procedure.frames([77])[0])


def test_devices_that_are_not_there_are_named() -> None:
    check_device("cpu")
    for name in ("abacus", "cuda:99", "cuda:"):
        with pytest.raises(PolyplinkError, match=f"no device '{name}' here; use cpu, cuda or"):
            check_device(name)


def test_what_cannot_be_opened_is_named(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no procedure '009-001' in the simulation"):
        SimulatedProcedure.open(made.out, "009-001")
    with pytest.raises(PolyplinkError, match=r"key\.json is missing"):
        SimulatedProcedure.open(tmp_path, "001-001")
