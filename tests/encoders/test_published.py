"""Published weight files: read without running their code, recognised, tensors renamed."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder, build_frame_encoder
from polyplink.encoders.catalogue import BACKBONE, REFERENCES, recognise
from polyplink.encoders.config import FoundationConfig, SfeConfig
from polyplink.encoders.published import fit_published, fit_timm, read_published, unwrap
from tests.encoders.checkpoints import State, timesformer_shapes, vit_shapes

TENSORS = {"a": torch.arange(3.0), "b": torch.ones(2, 2)}
PATH = Path("given.pth")
SHALLOW = FoundationConfig(depth=1)


class FolderMaker:
    """An object with a pickle that makes a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("layout", ["safetensors", "zip", "legacy"])
def test_every_file_layout_is_read_and_truncated_files_are_refused(
    tmp_path: Path, layout: str
) -> None:
    path = tmp_path / "file"
    if layout == "safetensors":
        save_file(TENSORS, path)
    else:
        torch.save(TENSORS, path, _use_new_zipfile_serialization=layout == "zip")
    tensors = read_published(path)
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())
    del tensors
    content = path.read_bytes()
    for size in range(len(content) // 3, len(content), len(content) // 40):
        path.write_bytes(content[:size])
        with pytest.raises(
            PolyplinkError, match=r"copy or download it again|--trust-pickle"
        ) as error:
            read_published(path)
        assert len(str(error.value).splitlines()) == 1


def test_code_in_a_pickle_runs_only_with_trust_pickle(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "evil": FolderMaker(tmp_path / "made")}, tmp_path / "e.pth")
    with pytest.raises(PolyplinkError, match=r"would run code .*mkdir.*--trust-pickle"):
        read_published(tmp_path / "e.pth")
    assert not (tmp_path / "made").exists()
    read_published(tmp_path / "e.pth", trust_pickle=True)
    assert (tmp_path / "made").is_dir()


def test_files_of_another_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no file"):
        read_published(tmp_path / "f.pth")
    (tmp_path / "f.pth").write_bytes(b"hello, world")
    with pytest.raises(PolyplinkError, match="neither safetensors nor a file of torch"):
        read_published(tmp_path / "f.pth")
    for path in (tmp_path / "f.pth", tmp_path / "f.safetensors"):  # the suffix does not decide
        torch.save([torch.ones(1)], path)
        with pytest.raises(PolyplinkError, match="holds a list, not tensors by name"):
            read_published(path)
        torch.save({"a": torch.ones(1)}, path)
        assert set(read_published(path)) == {"a"}
        for data in (pickle.dumps({"a": 1}, protocol=2), b"PK" + bytes(40)):
            path.write_bytes(data)
            with pytest.raises(PolyplinkError, match="is truncated or broken"):
                read_published(path)


def test_nesting_and_prefixes_are_removed() -> None:
    inner = {"module.backbone.x": torch.ones(1), "head.y": torch.ones(1), "epoch": 3}
    wrapped = ({"teacher": inner, "student": {}}, {"state_dict": inner}, {"model": inner}, inner)
    for loaded in wrapped:
        assert set(unwrap(loaded)) == {"x", "head.y"}


def zeros(shapes: dict[str, tuple[int, ...]]) -> State:
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def test_endofm_is_recognised_by_its_time_embedding_and_endovit_by_its_decoder() -> None:
    for frames, name in ((8, "endofm"), (32, "endofm-lv"), (16, None)):
        spec = recognise(zeros(timesformer_shapes(frames, 1)))
        assert getattr(spec, "name", None) == name
    encoder = zeros(vit_shapes(1))
    assert recognise(encoder) is None  # any ViT-B/16 looks like this
    spec = recognise(encoder | {"decoder_embed.weight": torch.zeros(1)})
    assert getattr(spec, "name", None) == "endovit"


def renamed_backbone() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The tensors of a backbone, and the same under the names of another program."""
    model, width = build_frame_encoder("timm:test_resnet")
    state = dict(model.state_dict())
    order = [key for key in state if not key.endswith("num_batches_tracked")]
    other = {f"_{k}.{key.rpartition('.')[2]}": state[key] for k, key in enumerate(order)}
    return state, other | {"_fc.weight": torch.zeros(7, width), "_fc.bias": torch.zeros(7)}


def test_a_timm_backbone_becomes_an_encoder_with_the_input_of_timm() -> None:
    state, other = renamed_backbone()
    spec, tensors, encoder, prepare, renamed = fit_timm(PATH, state, "test_resnet")
    assert (spec.name, encoder.mean, prepare.size, renamed) == (
        "test_resnet",
        (0.5,) * 3,
        160,
        False,
    )
    by_order = fit_timm(PATH, other, "test_resnet", FoundationConfig(preset="reference", size=32))
    assert (by_order.encoder.mean, by_order.prepare.size, by_order.renamed) == (
        (0.45,) * 3,
        32,
        True,
    )
    assert tensors.keys() == by_order.tensors.keys()
    assert all(torch.equal(value, by_order.tensors[key]) for key, value in tensors.items())


def test_backbones_that_do_not_fit_are_refused() -> None:
    state, other = renamed_backbone()
    alphabetical = dict(sorted(other.items()))
    swapped = {k.replace("running_mean", "weight"): v for k, v in other.items()}
    for unfit in (alphabetical, swapped, dict(list(other.items())[1:])):
        with pytest.raises(PolyplinkError, match="weights of another encoder"):
            fit_timm(PATH, unfit, "test_resnet")
    vit, _ = build_frame_encoder("timm:test_vit")
    with pytest.raises(PolyplinkError, match="takes no images of 50 pixels"):
        fit_timm(PATH, vit.state_dict(), "test_vit", FoundationConfig(size=50))
    with pytest.raises(PolyplinkError, match="leave --pooling out"):
        fit_timm(PATH, state, "test_resnet", FoundationConfig(pooling="cls"))


def one_value_each(state: State) -> State:
    """Tensors of the same shapes, each with a value of its own that is stored once."""
    return {
        name: torch.tensor(float(k)).expand(t.shape) for k, (name, t) in enumerate(state.items())
    }


def test_the_resnet50_of_torchvision_becomes_an_sfe() -> None:
    with torch.device("meta"):
        shapes = build_frame_encoder("timm:resnet50")[0].state_dict()
    state = one_value_each(shapes)
    spec, tensors, encoder, prepare, _ = fit_published(PATH, state)
    assert spec is BACKBONE
    assert isinstance(encoder, SfeConfig)
    assert prepare.size == 176
    assert set(tensors) == {f"backbone.{name}" for name in state}


def test_missing_unknown_and_reshaped_tensors_are_refused() -> None:
    state = zeros(timesformer_shapes(8, 1))
    assert fit_published(PATH, state, SHALLOW).published.name == "endofm"
    incomplete = {k: v for k, v in state.items() if k != "norm.bias"}
    for unfit, message in (
        (incomplete, "1 tensors missing, 0 unknown"),
        (state | {"stranger": torch.zeros(1)}, "0 tensors missing, 1 unknown"),
        (state | {"norm.bias": torch.zeros(7)}, "1 of another shape"),
        ({"what": torch.zeros(1), "ever": torch.zeros(1)}, "unknown encoder .*begins with what"),
        ({}, "no tensor at all"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            fit_published(PATH, unfit, SHALLOW)
    with pytest.raises(PolyplinkError, match="220 tensors missing, 0 unknown"):
        fit_published(PATH, state)


def checkpoint(name: str, state: State) -> State:
    """The tensors of an encoder under the names of a paper's program."""
    nesting = {"hmve": "mve.sfe.backbone.", "ta": "sfe.backbone.resnet.",
               "tpc": "sfe.backbone.backbone."}[name]  # fmt: skip
    layers = "mve.encoder." if name == "hmve" else "transformer_encoder."
    checkpoint_state: State = {}
    for key, value in state.items():
        new = key.replace("frame_head.", "sfe.head.") if key.startswith("frame_head.") else key
        if key.startswith("backbone."):
            new = key.replace("backbone.", nesting, 1)
        elif key.startswith("transformer."):
            new = key.replace("transformer.", layers, 1)
        elif name == "hmve":
            new = f"mve.{key}"
        checkpoint_state[new] = value
    heads = {
        "hmve": ("projector.0", "projector.2"),
        "ta": ("head.0", "head.2", "sfe.head.0", "sfe.head.2"),
        "tpc": (),
    }
    for head in heads[name]:
        checkpoint_state |= {f"{head}.weight": torch.zeros(2, 2), f"{head}.bias": torch.zeros(2)}
    return checkpoint_state


@pytest.mark.parametrize("name", REFERENCES)
def test_checkpoints_of_the_papers_become_encoders(name: str, tmp_path: Path) -> None:
    with torch.device("meta"):
        shapes = build_encoder(REFERENCES[name].encoder).state_dict()
    expected = one_value_each(shapes)
    state = checkpoint(name, expected)
    assert name != "hmve" or len(state) == 361
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": state, "hyper_parameters": {"dim": 256}, "epoch": 49}, path)
    fitted = fit_published(path, read_published(path))
    assert fitted.published.name == name
    assert set(fitted.tensors) == set(expected)
    assert all(torch.equal(fitted.tensors[key], v) for key, v in expected.items())
    with pytest.raises(PolyplinkError, match="has one size, normalisation and pooling"):
        fit_published(path, state, FoundationConfig(size=224))
    extra = "mve.feature_norm.weight" if name == "hmve" else "adapter.extra"
    unknown = rf"1 unknown, .* first '{extra.removeprefix('mve.')}'"
    with pytest.raises(PolyplinkError, match=unknown):
        fit_published(path, state | {extra: torch.ones(2048)})
