from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import FoundationConfig, MveConfig
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.weights import Seen, WeightsRecord, save_weights, stored_path
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import find_recipe, override
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.reproduce import encoders_under_test
from polyplink_lab.reproduce.encoders_under_test import (
    Workspace,
    fed_as,
    find_encoder,
    run_folder,
    stand_in_recipe,
    untrained_stand_in,
    what_is_missing,
)
from tests.conftest import SampleRun


@pytest.fixture(autouse=True)
def _empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))


def test_weights_that_are_given_are_used(sample_run: SampleRun, tmp_path: Path) -> None:
    place = Workspace(tmp_path, sample_run.data, {"endofm": sample_run.run}, device="cpu")
    assert what_is_missing("endofm", place) == ""
    encoder = find_encoder("endofm", place, "eval")
    assert encoder.name == "endofm"
    with pytest.raises(PolyplinkError, match="trained or validated on"):
        find_encoder("endofm", place, "train")


def test_what_is_missing_is_named_with_its_mend(sample_run: SampleRun, tmp_path: Path) -> None:
    place = Workspace(tmp_path, sample_run.data, may_train=False, device="cpu")
    with pytest.raises(PolyplinkError, match="endofm"):
        find_encoder("endofm", place, "eval")
    with pytest.raises(PolyplinkError, match=r"ntssl is not trained in .*--weights ntssl=FILE"):
        find_encoder("ntssl", place, "eval")
    ready = replace(place, may_train=True)
    lacking = what_is_missing("ntssl", ready)
    assert "ntssl trains on rc27: rc27 consists of 27 procedures" in lacking
    assert "--set part=NAME" in lacking
    elsewhere = replace(ready, sets=("part=train",))
    assert "the backbone of ntssl" in what_is_missing("ntssl", elsewhere)
    able = ("part=train", "encoder.frame_weights=none")
    assert what_is_missing("ntssl", replace(ready, sets=able)) == ""
    assert what_is_missing("none") == ""


def test_a_run_that_is_there_is_used_again(sample_run: SampleRun, tmp_path: Path) -> None:
    place = Workspace(tmp_path, sample_run.data, may_train=False, device="cpu")
    run = run_folder(place, find_recipe("ntssl"))
    run.mkdir(parents=True)
    (run / "weights.safetensors").write_bytes((sample_run.run / "weights.safetensors").read_bytes())
    assert find_encoder("ntssl", place, "eval").name == "ntssl"
    assert run != run_folder(place, find_recipe("ntssl-demo"))
    other = override(find_recipe("ta384-mve"), ["optim.epochs=2"])
    assert (other.name, other.part, other.optim.epochs) == ("ta384-mve", "ta384", 2)


def test_published_encoders_are_fed_as_by_the_program(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    """224 pixels, mean 0.45 and deviation 0.225 for every encoder; whole tracklets as clips."""
    own = FoundationConfig("dinov3-s", depth=1)
    network = build_encoder(own)
    record = WeightsRecord(own, PrepareSettings(size=224), {"name": "dinov3-s"}, Seen(), {})
    save_weights(stored_path("dinov3-s"), network, record)
    crops = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    place = Workspace(tmp_path, sample_run.data, device="cpu")
    encoder = find_encoder("dinov3-s", place, "eval")
    pixels = (torch.from_numpy(crops).permute(0, 3, 1, 2) / 255 - 0.45) / 0.225
    with torch.inference_mode():
        naive = network.eval().backbone(pixels).last_hidden_state[:, 0].mean(dim=0)
    assert np.allclose(encoder.embedder(crops, [2])[0], naive, atol=1e-4)
    as_pretrained = find_encoder("dinov3-s", replace(place, preset="own"), "eval")
    assert not np.allclose(as_pretrained.embedder(crops, [2])[0], naive, atol=1e-2)
    assert encoder.key == f"{as_pretrained.key}-reference"  # vectors are cached apart
    clips = replace(encoder, record=replace(record, encoder=FoundationConfig("endofm", depth=1)))
    moving = build_encoder(FoundationConfig("endofm", depth=1))
    fed = fed_as(replace(clips, embedder=NetworkEmbedder(moving)), "reference").embedder
    assert isinstance(fed, NetworkEmbedder)
    assert (fed.encoder.config.clip, moving.config.clip) == (0, 8)


def test_each_training_starts_from_what_it_needs(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[str, str]] = []

    def train(
        recipe: TrainConfig, data: Path, *, out: Path, init_from: Path | None, **_: object
    ) -> None:
        trained.append((recipe.name, "" if init_from is None else init_from.parent.name))
        out.mkdir(parents=True)
        weights = (sample_run.run / "weights.safetensors").read_bytes()
        (out / "weights.safetensors").write_bytes(weights)

    monkeypatch.setattr(encoders_under_test, "train", train)
    place = Workspace(
        tmp_path,
        sample_run.data,
        sets=("part=train", "encoder.frame_weights=none"),
        device="cpu",
    )
    for name in ("tpc", "mve", "tpc", "ta384-mve"):
        find_encoder(name, place, "eval")
    assert [name for name, _ in trained] == ["sfe", "tpc", "mve", "ta384-sfe", "ta384-mve"]
    own = override(find_recipe("ta384-mve"), place.sets).encoder
    assert isinstance(own, MveConfig)  # of the predecessor, from an SFE with its head
    assert find_recipe("ta384-sfe").encoder.vector == "projected"
    assert [bool(start) for _, start in trained] == [False, True, True, False, True]


def test_stand_ins_differ_by_name_and_not_by_call(sample_run: SampleRun, tmp_path: Path) -> None:
    place = Workspace(tmp_path, sample_run.data, stand_in=True, device="cpu")
    crops = np.random.default_rng(0).integers(0, 255, (4, 48, 48, 3), dtype=np.uint8)
    one, same, other = (untrained_stand_in(n, place) for n in ("dinov2-s", "dinov2-s", "endovit"))
    assert np.array_equal(one.embedder(crops, [4]), same.embedder(crops, [4]))
    assert not np.allclose(one.embedder(crops, [4]), other.embedder(crops, [4]))
    assert one.key != other.key
    assert stand_in_recipe("endovit") is None
    assert stand_in_recipe("endofm-supervised") is None
    for name in ("ntssl-frame", "ta384-temporally-aware-7x8"):
        small = stand_in_recipe(name)
        assert small is not None
        assert small.name == f"{name.removeprefix('ta384-')}-small"
    assert find_encoder("none", place, "eval").prepare.size == 48
