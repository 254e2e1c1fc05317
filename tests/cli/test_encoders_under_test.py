from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.core.results import silent
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import FoundationConfig, MveConfig
from polyplink.encoders.weights import Seen, WeightsRecord, save_weights, stored_path
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import find_recipe, override
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.reproduce import encoders_under_test
from polyplink_lab.reproduce.encoders_under_test import (
    Workspace,
    find_encoder,
    run_folder,
    stand_in_recipe,
    untrained_stand_in,
    what_is_missing,
)
from tests.conftest import SampleRun

pytestmark = pytest.mark.usefixtures("empty_store")


def test_named_weights_are_used(sample_run: SampleRun, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, sample_run.data, {"endofm": sample_run.run}, device="cpu")
    assert what_is_missing("endofm", workspace) == ""
    encoder = find_encoder("endofm", workspace, "eval", silent)
    assert encoder.name == "endofm"
    with pytest.raises(PolyplinkError, match="trained or validated on"):
        find_encoder("endofm", workspace, "train", silent)


def test_missing_weights_are_named_with_a_fix(sample_run: SampleRun, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, sample_run.data, may_train=False, device="cpu")
    with pytest.raises(PolyplinkError, match="endofm"):
        find_encoder("endofm", workspace, "eval", silent)
    with pytest.raises(PolyplinkError, match=r"ntssl is not trained in .*--weights ntssl=FILE"):
        find_encoder("ntssl", workspace, "eval", silent)
    may_train = replace(workspace, may_train=True)
    other_part = replace(may_train, sets=("part=train",))
    assert "the backbone of ntssl" in what_is_missing("ntssl", other_part)
    sets = ("part=train", "encoder.frame_weights=none")
    assert what_is_missing("ntssl", replace(may_train, sets=sets)) == ""
    assert what_is_missing("none") == ""


def test_an_existing_run_is_used(sample_run: SampleRun, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, sample_run.data, may_train=False, device="cpu")
    run = run_folder(workspace, find_recipe("ntssl"))
    run.mkdir(parents=True)
    (run / "weights.safetensors").write_bytes((sample_run.run / "weights.safetensors").read_bytes())
    assert find_encoder("ntssl", workspace, "eval", silent).name == "ntssl"
    assert run != run_folder(workspace, find_recipe("ntssl-demo"))
    other = override(find_recipe("ta384-mve"), ["optim.epochs=2"])
    assert (other.name, other.part, other.optim.epochs) == ("ta384-mve", "ta384", 2)


def test_published_encoders_get_the_input_of_the_program(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    """224 pixels, mean 0.45 and standard deviation 0.225."""
    config = FoundationConfig("endovit", depth=1)
    network = build_encoder(config)
    record = WeightsRecord(config, PrepareSettings(size=224), {"name": "endovit"}, Seen(), {})
    save_weights(stored_path("endovit"), network, record)
    crops = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    workspace = Workspace(tmp_path, sample_run.data, device="cpu")
    encoder = find_encoder("endovit", workspace, "eval", silent)
    pixels = (torch.from_numpy(crops).permute(0, 3, 1, 2) / 255 - 0.45) / 0.225
    backbone: Any = network.eval().backbone
    with torch.inference_mode():
        naive = backbone.forward_features(pixels)[:, 0].mean(dim=0)
    assert np.allclose(encoder.embedder(crops, [2])[0], naive, atol=1e-4)
    as_pretrained = find_encoder("endovit", replace(workspace, preset="own"), "eval", silent)
    assert not np.allclose(as_pretrained.embedder(crops, [2])[0], naive, atol=1e-2)
    assert encoder.key == f"{as_pretrained.key}-reference"  # vectors are cached separately


def test_each_training_starts_from_its_predecessor(
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
    workspace = Workspace(
        tmp_path, sample_run.data, sets=("part=train", "encoder.frame_weights=none"), device="cpu"
    )
    for name in ("tpc", "mve", "tpc", "ta384-mve"):
        find_encoder(name, workspace, "eval", silent)
    assert [name for name, _ in trained] == ["sfe", "tpc", "mve", "ta384-sfe", "ta384-mve"]
    encoder_config = override(find_recipe("ta384-mve"), workspace.sets).encoder
    # The encoder of the preceding paper starts from an SFE with its head.
    assert isinstance(encoder_config, MveConfig)
    assert find_recipe("ta384-sfe").encoder.vector == "projected"
    assert [bool(start) for _, start in trained] == [False, True, True, False, True]


def test_stand_ins_depend_only_on_their_name(sample_run: SampleRun, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, sample_run.data, stand_in=True, device="cpu")
    crops = np.random.default_rng(0).integers(0, 255, (4, 48, 48, 3), dtype=np.uint8)
    first, same, other = (
        untrained_stand_in(n, workspace) for n in ("dinov2-s", "dinov2-s", "endovit")
    )
    assert np.array_equal(first.embedder(crops, [4]), same.embedder(crops, [4]))
    assert not np.allclose(first.embedder(crops, [4]), other.embedder(crops, [4]))
    assert first.key != other.key
    assert stand_in_recipe("endovit") is None
    assert stand_in_recipe("endofm-supervised") is None
    for name in ("ntssl-frame", "ta384-temporally-aware-7x8"):
        small = stand_in_recipe(name)
        assert small is not None
        assert small.name == f"{name.removeprefix('ta384-')}-small"
    assert find_encoder("none", workspace, "eval", silent).prepare.size == 48
