from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyplink.app.encoders_under_test import (
    Workspace,
    find_encoder,
    recipe_of,
    run_folder,
    stand_in_recipe,
    untrained_stand_in,
    what_is_missing,
)
from polyplink.core.errors import PolyplinkError
from polyplink.recipes import find_recipe
from tests.conftest import Made


@pytest.fixture(autouse=True)
def _empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))


def test_weights_that_are_given_are_used(made: Made, tmp_path: Path) -> None:
    place = Workspace(tmp_path, made.data, {"endofm": made.run}, device="cpu")
    assert what_is_missing("endofm", place) == ""
    encoder = find_encoder("endofm", place, "eval")
    assert encoder.name == "endofm"
    with pytest.raises(PolyplinkError, match="trained or validated on"):
        find_encoder("endofm", place, "train")


def test_what_is_missing_is_named_with_its_mend(made: Made, tmp_path: Path) -> None:
    place = Workspace(tmp_path, made.data, may_train=False, device="cpu")
    with pytest.raises(PolyplinkError, match="endofm"):
        find_encoder("endofm", place, "eval")
    with pytest.raises(PolyplinkError, match=r"ntssl is not trained in .*--weights ntssl=FILE"):
        find_encoder("ntssl", place, "eval")
    ready = replace(place, may_train=True)
    assert "the backbone of ntssl" in what_is_missing("ntssl", ready)
    assert what_is_missing("ntssl", replace(ready, sets=("encoder.frame_weights=none",))) == ""
    assert what_is_missing("none") == ""


def test_a_run_that_is_there_is_used_again(made: Made, tmp_path: Path) -> None:
    place = Workspace(tmp_path, made.data, may_train=False, device="cpu")
    run = run_folder(place, find_recipe("ntssl"))
    run.mkdir(parents=True)
    (run / "weights.safetensors").write_bytes((made.run / "weights.safetensors").read_bytes())
    assert find_encoder("ntssl", place, "eval").name == "ntssl"
    assert run != run_folder(place, find_recipe("ntssl-demo"))
    other = recipe_of("ta384-mve", ["optim.epochs=2"])
    assert (other.name, other.part, other.optim.epochs) == ("ta384-mve", "ta384", 2)


def test_stand_ins_differ_by_name_and_not_by_call(made: Made, tmp_path: Path) -> None:
    place = Workspace(tmp_path, made.data, stand_in=True, device="cpu")
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
