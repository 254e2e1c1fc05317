import numpy as np
import pytest
import torch

from polyplink.bench import embed
from polyplink.bench.embed import LENGTH, measure, synthetic_work, waken
from polyplink.encoders import EncoderConfig, TrackletEncoder
from polyplink.evaluate import retrieve

TINY = EncoderConfig(frame_encoder="timm:test_resnet", width=32, layers=1, heads=4, feedforward=64)
pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")


def test_the_export_is_measured_and_equal() -> None:
    result = measure(8, TINY, 64)
    assert (result.name, result.size, result.equal) == ("embed", 8, True)


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(embed, "eager", lambda _, work: rng.normal(size=(len(work.lengths), 8)))
    assert not measure(8, TINY, 64).equal


def test_the_work_has_two_tracklets_of_each_polyp() -> None:
    work = synthetic_work(6, 32)
    assert work.crops.shape == (6 * LENGTH, 32, 32, 3)
    assert np.bincount(work.samples.polyp).tolist() == [2, 2, 2]
    means = work.crops.reshape(6, -1).astype(float)
    assert retrieve(means, work.samples).mean_ap == 1.0


def test_residual_branches_are_awake() -> None:
    fresh, awake = TrackletEncoder(TINY), waken(TrackletEncoder(TINY))
    norms = [m for m in awake.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert all(norm.weight.all() for norm in norms)
    asleep = [m for m in fresh.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(asleep) == len(norms)
