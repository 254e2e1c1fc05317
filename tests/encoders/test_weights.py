"""Weights: the store, the record, loading, and training from other weights."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from polyplink.core.artefacts import file_key, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.load import build_started, load_encoder
from polyplink.encoders.pretrained import from_pretrained, save_pretrained
from polyplink.encoders.weights import (
    Seen,
    WeightsRecord,
    added_paths,
    read_record,
    save_weights,
    seen_before_training,
    store_folder,
    stored_path,
    weights_id,
    weights_path,
)
from polyplink.tracklets.settings import PrepareSettings
from tests.encoders.small import CLIPS, FRAMES, MVE, PROJECTED, SFE, TRANSFORMER, random_encoder

CPU = torch.device("cpu")
SEEN = Seen("key", trained=(("set", "001-001", "p"),), datasets=("SUN",))


@pytest.fixture
def store(empty_store: Path) -> Path:
    empty_store.mkdir(parents=True)
    return empty_store


def save_random(
    path: Path, config: AnyEncoderConfig, actual_config: AnyEncoderConfig | None = None
) -> Encoder:
    """Save random weights; `actual_config` builds the encoder if the record is to be wrong."""
    encoder = random_encoder(actual_config or config, seed=5)
    prepare = PrepareSettings(size=32, crop_factor=None)
    record = WeightsRecord(config, prepare, {"name": "x"}, SEEN, {"epoch": 3}, {"alpha": 0.5})
    save_weights(path, encoder, record)
    return encoder


def test_environment_variables_decide_the_weights_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("POLYPLINK_HOME", raising=False)
    assert store_folder() == tmp_path / "polyplink" / "weights"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert store_folder() == Path.home() / ".local/share/polyplink/weights"
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "own"))
    assert store_folder() == tmp_path / "own" / "weights"
    assert added_paths() == []


def test_weights_paths_resolve_names_and_run_folders(store: Path, tmp_path: Path) -> None:
    path = stored_path("endofm")
    path.write_bytes(b"x")
    assert weights_path(Path("endofm")) == path == store / "endofm.safetensors"
    assert weights_path(Path("endofm.safetensors")) == path
    assert added_paths() == [path]
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(PolyplinkError, match="no weights at"):
        weights_path(run)
    (run / "weights.safetensors").write_bytes(b"x")
    assert weights_path(run) == run / "weights.safetensors"
    for name in ("", "../x", "a/b", ".hidden"):
        with pytest.raises(PolyplinkError, match="is not a valid name for weights"):
            stored_path(name)


def test_missing_published_weights_name_their_download(store: Path) -> None:
    with pytest.raises(PolyplinkError) as error:
        weights_path(Path("endofm"))
    for part in ("Endo-FM", "1H7B91Ewm4QkZRsnUk1Bn0IQch5P8C7Xl", "Apache-2.0", "weights add"):
        assert part in str(error.value)
    for missing in (Path("nothing"), Path("some/where")):
        with pytest.raises(PolyplinkError, match=f"no weights at {missing}"):
            weights_path(missing)


def test_a_detector_in_place_of_weights_is_named() -> None:
    with pytest.raises(PolyplinkError, match="detector-v1 is a detector"):
        weights_path(Path("detector-v1"))


def test_saved_weights_load_with_their_record(tmp_path: Path) -> None:
    config = replace(TRANSFORMER, frame_weights=Path("elsewhere.safetensors"))
    encoder = save_random(tmp_path / "weights.safetensors", config, TRANSFORMER)
    loaded = load_encoder(tmp_path, CPU)  # a run folder is accepted
    assert loaded.record.encoder.frame_weights is None  # the file contains them
    assert loaded.record.prepare == PrepareSettings(size=32, crop_factor=None)
    assert loaded.record.operating == {"alpha": 0.5}
    assert not loaded.encoder.training
    for key, value in encoder.state_dict().items():
        assert torch.equal(loaded.encoder.state_dict()[key], value)
    save_random(tmp_path / "again.safetensors", config, TRANSFORMER)
    assert load_encoder(tmp_path / "again.safetensors", CPU).weights_id == loaded.weights_id


@pytest.mark.parametrize("values", [{"width": 32}, {"frame_encoder": "timm:test_convnext"}])
def test_weights_of_another_encoder_are_refused(tmp_path: Path, values: dict[str, object]) -> None:
    other_config = replace(TRANSFORMER, **values)  # type: ignore[arg-type]
    save_random(tmp_path / "w.safetensors", other_config, TRANSFORMER)
    with pytest.raises(PolyplinkError, match="weights of another encoder"):
        load_encoder(tmp_path / "w.safetensors", CPU)


def test_foundation_weights_are_loaded_strictly(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(random_encoder(FRAMES).state_dict(), path)
    reloaded = random_encoder(replace(FRAMES, frame_weights=path), seed=1)
    for name, value in random_encoder(FRAMES).state_dict().items():
        assert torch.equal(reloaded.state_dict()[name], value)
    with pytest.raises(PolyplinkError, match="weights of another encoder"):
        build_encoder(FoundationConfig("dinov2-s", depth=1, size=28, frame_weights=path))
    path.write_bytes(b"junk")
    with pytest.raises(PolyplinkError, match=r"is not safetensors.*weights add"):
        build_encoder(replace(FRAMES, frame_weights=path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "holds no polyplink record"),
        ('{"format": 99}', "has another format of record"),
        ("no json", r"the record of .* is not valid JSON"),
        ("[1]", r"the record of .* is broken"),
        ('{"format": 1}', r"the record of .* is broken"),
        ('{"format": 1, "seen": {"trained": 3}}', r"the record of .* is broken"),
    ],
)
def test_a_missing_or_broken_record_is_one_line(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"junk")
    with pytest.raises(PolyplinkError, match="is not safetensors"):
        read_record(path)
    save_file({"x": torch.zeros(1)}, path, {"polyplink": text} if text else None)
    with pytest.raises(PolyplinkError, match=message) as error:
        read_record(path)
    assert len(str(error.value).splitlines()) == 1


def test_an_encoder_starts_from_weights_of_the_same_configuration(tmp_path: Path) -> None:
    other = save_random(tmp_path / "weights.safetensors", TRANSFORMER)
    config = replace(TRANSFORMER, frame_weights=Path("not-read.safetensors"))
    started = build_started(config, tmp_path)
    for name, value in other.state_dict().items():
        assert torch.equal(started.state_dict()[name], value)
    seen, ids = seen_before_training(TRANSFORMER, tmp_path)
    assert [tuple(row) for row in seen.trained] == [("set", "001-001", "p")]
    assert list(seen.datasets) == ["SUN"]
    assert len(ids["init_from"]) >= 8


def test_an_encoder_has_seen_what_its_frame_weights_have_seen(tmp_path: Path) -> None:
    trained, plain = tmp_path / "trained.safetensors", tmp_path / "plain.safetensors"
    backbone = save_random(trained, SFE).backbone.state_dict()
    save_file(backbone, plain)
    for path, n_trained in ((trained, 1), (plain, 0)):
        config = replace(TRANSFORMER, frame_weights=path)
        started = build_started(config).backbone.state_dict()
        assert all(torch.equal(started[name], value) for name, value in backbone.items())
        assert len(seen_before_training(config, None)[0].trained) == n_trained
    with pytest.raises(PolyplinkError, match="holds no polyplink record"):
        seen_before_training(replace(CLIPS, frame_weights=plain), None)
    of_plugin = SimpleNamespace(frame_weights=tmp_path / "in-a-format-of-its-own.pth")
    assert seen_before_training(of_plugin, None) == (Seen(), {})


def test_an_encoder_without_weights_starts_with_random_values() -> None:
    torch.manual_seed(0)
    plain = build_started(TRANSFORMER).state_dict()
    assert all(
        torch.equal(v, plain[name]) for name, v in random_encoder(TRANSFORMER).state_dict().items()
    )
    assert not torch.equal(plain["adapter.weight"], random_encoder(TRANSFORMER, 1).adapter.weight)  # type: ignore[arg-type, union-attr]
    assert seen_before_training(TRANSFORMER, None) == (Seen(), {})


def test_the_multi_view_encoder_starts_from_a_single_frame_encoder(tmp_path: Path) -> None:
    path = tmp_path / "sfe.safetensors"
    sfe = save_random(path, replace(PROJECTED, projector_out=MVE.width)).state_dict()
    torch.manual_seed(0)
    state, fresh = build_started(MVE, path).state_dict(), random_encoder(MVE).state_dict()
    assert torch.equal(state["frame_head.2.weight"], sfe["head.2.weight"])
    assert all(torch.equal(state[k], v) for k, v in sfe.items() if k.startswith("backbone."))
    rest = [k for k in state if not k.startswith(("backbone.", "frame_head."))]
    assert {"cls_token", "head.weight"} <= set(rest)
    assert all(
        torch.equal(state[k], fresh[k]) for k in rest
    )  # the same random values as without weights
    torch.manual_seed(0)
    state, fresh = (
        build_started(TRANSFORMER, path).state_dict(),
        random_encoder(TRANSFORMER).state_dict(),
    )
    for name, value in state.items():  # the backbone alone
        origin = sfe if name.startswith("backbone.") else fresh
        assert torch.equal(value, origin[name])


def test_starting_from_weights_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sfe.safetensors"
    with pytest.raises(PolyplinkError, match="no weights at"):
        build_started(MVE, path)
    save_random(path, SFE)
    with pytest.raises(PolyplinkError, match=r"without its head; .*encoder\.vector=projected"):
        build_started(MVE, path)
    with pytest.raises(PolyplinkError, match="holds weights of another encoder"):
        build_started(PROJECTED, path)
    save_random(path, PROJECTED)
    with pytest.raises(PolyplinkError, match=r"of another shape, first 'frame_head\.2"):
        build_started(MVE, path)


def test_a_saved_folder_has_a_card_and_loads_from_mirrors(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.safetensors"
    encoder = save_random(path, SFE)
    (tmp_path / "figures.csv").write_text(
        "method,group,metric,value,low,high,units,unit\n"
        "x,Retrieval,mAP,0.5123,0.41,0.62,9,procedures\nx,Retrieval,HR@1,,,,,\n"
        "other,Retrieval,mAP,0.9,,,9,procedures\n"
    )
    mirror = tmp_path / "second"
    folder = save_pretrained(
        path, mirror / "mine", figures=tmp_path, licence="MIT", mirrors=["https://a.b/c"]
    )
    assert (folder / "model.safetensors").read_bytes() == path.read_bytes()
    card = (folder / "README.md").read_text()
    for part in (
        "license: mit\n",
        "| Retrieval: mAP | 0.512 | 0.41 to 0.62 | 9 procedures |",
        "trained on set (procedures: 1, patients: 1)",
        "pre-trained by others on SUN",
        "Crops of 32 x 32 pixels",
        "the full frame",
        "mirror: https://a.b/c",
    ):
        assert part in card, part
    assert "0.9" not in card
    of_unknown = Seen(trained=[("set", "a", "a"), ("set", "b", "b")])
    save_weights(tmp_path / "u.safetensors", encoder, replace(read_record(path), seen=of_unknown))
    unknown = save_pretrained(tmp_path / "u.safetensors", tmp_path / "u")
    assert "(procedures: 2, patients not known)" in (unknown / "README.md").read_text()
    write_json(tmp_path / "run.json", {"inputs": {"weights": "0", "other": weights_id(path)}})
    save_pretrained(path, tmp_path / "again", figures=tmp_path)
    assert "| Retrieval: mAP | 0.9 |" in (tmp_path / "again" / "README.md").read_text()
    figures = (tmp_path / "figures.csv").read_text()
    (tmp_path / "decimal-comma.csv").write_text(figures.replace(",0.9,", ',"0,9",'))
    with pytest.raises(PolyplinkError, match="'0,9', which is not a number"):
        save_pretrained(path, tmp_path / "third", figures=tmp_path / "decimal-comma.csv")
    write_json(tmp_path / "run.json", {"inputs": {"weights": "0"}})
    with pytest.raises(PolyplinkError, match=r"are of other weights \(0\)"):
        save_pretrained(path, tmp_path / "third", figures=tmp_path)
    with pytest.raises(PolyplinkError, match=r"w\.safetensors has no figures"):
        save_pretrained(path, tmp_path / "third", figures=path)
    loaded = from_pretrained(folder)
    assert loaded.weights_id == load_encoder(path, CPU).weights_id
    assert loaded.encoder.state_dict().keys() == encoder.state_dict().keys()
    with pytest.raises(PolyplinkError, match="no device 'abacus' here"):
        from_pretrained(folder, "abacus")
    with pytest.raises(PolyplinkError, match="exists already"):
        save_pretrained(path, folder)

    # The first mirror has a damaged copy.
    damaged = tmp_path / "first" / "mine"
    shutil.copytree(folder, damaged)
    (damaged / "model.safetensors").write_bytes(path.read_bytes()[:-1] + b"\7")
    monkeypatch.setenv("POLYPLINK_MIRRORS", f"{tmp_path / 'first'}{os.pathsep}{mirror}")
    assert weights_path(Path("mine")) == folder / "model.safetensors"
    with pytest.raises(PolyplinkError, match=r"not the file that was added.*; copy its folder"):
        load_encoder(damaged, CPU)
    # Without the second one, the error names the damaged file, and both hashes.
    monkeypatch.setenv("POLYPLINK_MIRRORS", str(tmp_path / "first"))
    begins, right = (file_key(place / "model.safetensors")[:8] for place in (damaged, folder))
    message = f"{damaged / 'model.safetensors'} is not the file .* {begins}, not {right}; copy"
    with pytest.raises(PolyplinkError, match=message):
        weights_path(Path("mine"))
    with pytest.raises(PolyplinkError, match="no weights at other"):
        weights_path(Path("other"))
