"""Exported encoders: the graphs compute what the encoder does, in the requested precision."""

import builtins
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encoder import FrameWise, Tokens
from polyplink.encoders.export import ExportedEncoder, export_encoder, with_record
from polyplink.encoders.load import load_named
from polyplink.encoders.weights import Seen, WeightsRecord, record_text, weights_path
from polyplink.tracklets.settings import PrepareSettings
from tests.encoders.small import KINDS, TRANSFORMER, random_crops, random_encoder

openvino = pytest.importorskip("openvino")
onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

SIDE = 32
CROPS, LENGTHS = random_crops(13, SIDE).numpy(), [3, 8, 2]
PREPARE = PrepareSettings(crop_factor=1.5, size=SIDE)
SEEN = Seen(trained=[("set", "p1", "p1")])
RECORD = WeightsRecord(TRANSFORMER, PREPARE, {"name": "tiny"}, SEEN, {"epoch": 3})
MULTIPLIES_BF16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
EXAMPLE = Path(__file__).parents[2] / "docs/how-to/embed.cpp"


def small_encoder(kind: str = "transformer") -> FrameWise:
    encoder = random_encoder(KINDS[kind])
    assert isinstance(encoder, FrameWise)
    return encoder


class PixelEncoder(FrameWise):
    """A linear layer of a frame's pixels, with graphs that `write_by_hand` writes."""

    config, width = TRANSFORMER, 16

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.backbone = torch.nn.Linear(SIDE * SIDE * 3, self.width)
        self.keep_pixel_scale(TRANSFORMER.mean, TRANSFORMER.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.backbone(self.normalised(frames).flatten(1))
        return features


GRAPHS = {
    "encode_frames": """
<ir_version: 10, opset_import: ["" : 20]>
frames (uint8[n, 32, 32, 3] crops) => (float[n, 16] features) {
    planes = Transpose<perm = [0, 3, 1, 2]>(crops)
    pixels = Cast<to = 1>(planes)
    scaled = Div(pixels, deviation)
    flat = Flatten(scaled)
    features = Gemm<transB = 1>(flat, weight, bias)
}""",
    "pool_packed": """
<ir_version: 10, opset_import: ["" : 20]>
tracklets (float[n, 16] features, int64[b] lengths) => (float[b, 16] vectors) {
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    column = Constant<value = int64[1] {1}>()
    n_in_a_list = Shape<start = 0, end = 1>(features)
    n = Squeeze(n_in_a_list)
    row = Range(zero, n, one)
    end = CumSum(lengths, zero)
    start = Sub(end, lengths)
    end_column = Unsqueeze(end, column)
    start_column = Unsqueeze(start, column)
    before_end = Less(row, end_column)
    from_start = GreaterOrEqual(row, start_column)
    member = And(before_end, from_start)
    weights = Cast<to = 1>(member)
    sums = MatMul(weights, features)
    length_column = Unsqueeze(lengths, column)
    counts = Cast<to = 1>(length_column)
    vectors = Div(sums, counts)
}""",
}


def write_by_hand(path: Path, module: Any, inputs: Any, *_: Any, **__: Any) -> None:
    """Replaces `write_graph`: torch takes seconds to export, and slow tests compare its graphs."""
    assert module(*inputs.values()).shape[1] == PixelEncoder.width
    model = onnx.parser.parse_model(GRAPHS[module.name])
    if module.name == "encode_frames":
        encoder = module.encoder
        deviation = 255 * encoder.std
        bias = encoder.backbone.bias - encoder.backbone.weight @ (
            (encoder.mean / encoder.std).expand(3, SIDE, SIDE).flatten()
        )
        values = {"deviation": deviation, "weight": encoder.backbone.weight, "bias": bias}
        for name, value in values.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value.numpy(), name))
    onnx.save(model, str(path))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(export_encoder.__globals__, "write_graph", write_by_hand)
        return export_encoder(PixelEncoder(), tmp_path_factory.mktemp("export") / "wide", RECORD)


@pytest.fixture(scope="module")
def exported_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(small_encoder(), tmp_path_factory.mktemp("network") / "wide", RECORD)


@pytest.fixture(scope="module")
def exported_int8(exported_network: Path) -> Path:
    out = exported_network.with_name("int8")
    return export_encoder(small_encoder(), out, RECORD, "int8", CROPS)


def worst_cosine(actual: np.ndarray, expected: np.ndarray) -> float:
    norms = np.linalg.norm(actual, axis=1) * np.linalg.norm(expected, axis=1)
    return float(((actual * expected).sum(axis=1) / norms).min())


def assert_any_lengths(exported_encoder: ExportedEncoder, encoder: FrameWise) -> None:
    """One graph computes tracklets of any length, alone and packed."""
    plain, features = NetworkEmbedder(encoder), exported_encoder.frames(CROPS)
    for lengths in ([13], [1] * 13, [1, 11, 1]):
        expected = plain(CROPS, lengths)
        inputs = {"features": features, "lengths": np.array(lengths)}
        np.testing.assert_allclose(exported_encoder._tracklets(inputs), expected, atol=1e-5)
        np.testing.assert_allclose(
            exported_encoder.tracklets(features, lengths), expected, atol=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "mve", "sfe", "frames"])
def test_every_frame_wise_encoder_exports_to_the_same_vectors(kind: str, tmp_path: Path) -> None:
    encoder, record = small_encoder(kind), WeightsRecord(KINDS[kind], PREPARE, {}, SEEN, {})
    exported_encoder = ExportedEncoder(export_encoder(encoder, tmp_path / "out", record))
    assert exported_encoder.width == encoder.width
    assert_any_lengths(exported_encoder, encoder)
    if kind == "frames":  # matrix products are not quantised
        with pytest.raises(PolyplinkError, match=r"not a convolutional network.*; export it wit"):
            export_encoder(encoder, tmp_path / "int8", record, "int8", CROPS)
        assert not (tmp_path / "int8").exists()


def test_one_graph_computes_tracklets_of_any_length(exported: Path) -> None:
    exported_encoder = ExportedEncoder(exported)
    assert_any_lengths(exported_encoder, PixelEncoder())
    features = exported_encoder.frames(CROPS)
    one_by_one = np.concatenate(
        [exported_encoder.frames(CROPS[i : i + 1]) for i in range(len(CROPS))]
    )
    np.testing.assert_allclose(one_by_one, features, atol=1e-5)
    single_threaded = ExportedEncoder(exported, threads=1)
    np.testing.assert_array_equal(single_threaded(CROPS, LENGTHS), exported_encoder(CROPS, LENGTHS))


class Largest(PixelEncoder):
    def aggregate(self, features: torch.Tensor, lengths: Any) -> Tokens:
        parts = torch.split(features, list(lengths))
        return Tokens(torch.stack([part.amax(dim=0) for part in parts]), features)


def test_an_encoder_with_a_graph_of_other_vectors_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(export_encoder.__globals__, "write_graph", write_by_hand)
    with pytest.raises(PolyplinkError, match=r"Largest and .* graphs differ .*; .*pool_packed"):
        export_encoder(Largest(), tmp_path / "out", RECORD)
    assert not (tmp_path / "out").exists()


def test_bf16_is_computed_on_request_or_refused(exported: Path) -> None:
    try:
        vectors = ExportedEncoder(exported, "bf16")(CROPS, LENGTHS)
    except PolyplinkError as refusal:
        # oneDNN limited to older instructions has no bf16 kernel, whatever the processor supports.
        expected = not MULTIPLIES_BF16 or "ONEDNN_MAX_CPU_ISA" in os.environ
        if not expected or "this processor does not compute" not in str(refusal):
            raise
        pytest.skip(str(refusal))
    wide = ExportedEncoder(exported)(CROPS, LENGTHS)
    assert 1e-5 < np.abs(vectors - wide).max() < 0.2
    assert worst_cosine(vectors, wide) > 0.99


FIRST_BLOCKS = """
import sys
from pathlib import Path
import numpy as np
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.export import FRAMES_PER_PASS, ExportedEncoder
sys.setswitchinterval(1e-5)  # switch threads as often as possible
try:
    encoder = ExportedEncoder(Path(sys.argv[1]), "bf16", threads=8)
except PolyplinkError as refusal:
    print(refusal)
else:
    print(len(encoder.frames(np.zeros((16 * FRAMES_PER_PASS, 32, 32, 3), np.uint8))) > 0)
"""


@pytest.mark.slow
def test_first_passes_in_bf16_in_several_threads_do_not_deadlock(exported_network: Path) -> None:
    # Without a first pass in one thread, about half of these processes never end.
    for _ in range(4):
        command = [sys.executable, "-c", FIRST_BLOCKS, str(exported_network)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.stdout == "True\n" or "does not compute" in done.stdout, done.stderr


@pytest.mark.slow
def test_int8_keeps_the_direction_of_vectors(exported_network: Path, exported_int8: Path) -> None:
    folders = (exported_int8, exported_network)
    sizes = [(folder / "frames.onnx").stat().st_size for folder in folders]
    assert sizes[0] < sizes[1]
    expected, embedder = (
        NetworkEmbedder(small_encoder())(CROPS, LENGTHS),
        ExportedEncoder(exported_int8),
    )
    vectors = embedder(CROPS, LENGTHS)
    assert worst_cosine(vectors, expected) > 0.98
    assert np.abs(vectors - expected).max() > 1e-6
    assert embedder.precision == "int8"
    assert record_text(embedder.record) == record_text(RECORD)
    with pytest.raises(
        PolyplinkError, match=r"exported for int8 .* cannot compute in bf16; .*without"
    ):
        ExportedEncoder(exported_int8, "bf16")
    with pytest.raises(PolyplinkError, match=r"exported for float32 .* in int8; .*with --int8"):
        ExportedEncoder(exported_network, "int8")
    with pytest.raises(PolyplinkError, match="no precision 'float16'"):
        ExportedEncoder(exported_network, "float16")


def test_another_operating_point_keeps_the_weights_id(exported: Path, tmp_path: Path) -> None:
    record = WeightsRecord(TRANSFORMER, PREPARE, {}, SEEN, {}, {"origin": "here"})
    encoder = ExportedEncoder(with_record(exported, tmp_path, record))
    assert encoder.record.operating == {"origin": "here"}
    assert encoder.weights_id == ExportedEncoder(exported).weights_id
    np.testing.assert_array_equal(
        encoder(CROPS, LENGTHS), ExportedEncoder(exported)(CROPS, LENGTHS)
    )


def test_exports_of_equal_graphs_have_a_key_for_each_precision(
    exported: Path, tmp_path: Path
) -> None:
    wide = load_named(exported)
    for_bf16 = Path(shutil.copytree(exported, tmp_path / "bf16"))
    config = json.loads((for_bf16 / "config.json").read_text())
    (for_bf16 / "config.json").write_text(json.dumps(config | {"precision": "bf16"}))
    assert load_named(for_bf16, precision="float32").key == wide.key
    if MULTIPLIES_BF16 and "ONEDNN_MAX_CPU_ISA" not in os.environ:
        assert load_named(for_bf16).key == f"{wide.key}-bf16"


def test_lengths_that_do_not_add_up_to_the_features_are_refused(exported: Path) -> None:
    encoder = ExportedEncoder(str(exported))
    features = encoder.frames(CROPS)
    for lengths in ([len(CROPS) - 1], [len(CROPS) + 1, -1], []):
        with pytest.raises(PolyplinkError, match=f"do not add up to {len(CROPS)} features"):
            encoder.tracklets(features, lengths)


def test_missing_changed_and_old_files_are_refused(exported: Path, tmp_path: Path) -> None:
    old = tmp_path / "encoder.onnx"
    old.write_bytes(b"a single file, as in earlier versions")
    with pytest.raises(PolyplinkError, match=r"no config.json in .*; export the weights again"):
        ExportedEncoder(weights_path(old))
    changed = Path(shutil.copytree(exported, tmp_path / "changed"))
    with (changed / "tracklets.onnx").open("ab") as file:
        file.write(b"x")
    with pytest.raises(PolyplinkError, match=r"tracklets.onnx is not the file .*; copy its folder"):
        ExportedEncoder(changed)
    (changed / "tracklets.onnx").unlink()
    with pytest.raises(PolyplinkError, match=r"has no tracklets.onnx; export it again"):
        ExportedEncoder(changed)
    config = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(PolyplinkError, match="was not written by polyplink; give a"):
        ExportedEncoder(changed)
    (changed / "tracklets.onnx").write_bytes(b"no graph")
    (changed / "config.json").write_text(json.dumps(config | {"files": {}}))
    with pytest.raises(PolyplinkError, match=r"tracklets.onnx cannot be read .*; export it again"):
        ExportedEncoder(changed)


def test_a_missing_library_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    original_import = builtins.__import__

    def import_without_onnx(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "onnx":
            raise ModuleNotFoundError(name="onnx")
        return original_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", import_without_onnx)
    with pytest.raises(PolyplinkError, match=r"needs onnx, .*polyplink\[export\]"):
        export_encoder(PixelEncoder(), tmp_path / "out", RECORD)


def test_the_cpp_example_computes_the_same_vectors(exported: Path, tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 150
    compiler = shutil.which("g++") or shutil.which("clang++")
    include = (
        ["-I", os.environ["ONNXRUNTIME_INCLUDE"]] if "ONNXRUNTIME_INCLUDE" in os.environ else []
    )
    if compiler is None:
        pytest.skip("no C++ compiler")
    header = b"#include <onnxruntime_c_api.h>\n"
    command = [compiler, "-E", "-x", "c++", "-", *include]
    if subprocess.run(command, input=header, capture_output=True, check=False).returncode:
        pytest.skip("no onnxruntime_c_api.h (it is not in the wheel; ONNXRUNTIME_INCLUDE names it)")
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (tmp_path / name).symlink_to(library)
    program = tmp_path / "embed"
    link = [f"-L{tmp_path}", "-lonnxruntime", f"-Wl,-rpath,{tmp_path}", "-o", str(program)]
    command = [compiler, "-std=c++17", "-Wall", "-Werror", *include, str(EXAMPLE), *link]
    subprocess.run(command, check=True)
    (tmp_path / "crops").write_bytes(CROPS.tobytes())
    command = [str(program), str(exported), str(tmp_path / "crops")]
    output = subprocess.run(
        [*command, *map(str, LENGTHS)], capture_output=True, text=True, check=True
    ).stdout
    vectors = np.array([line.split() for line in output.splitlines()], np.float32)
    np.testing.assert_allclose(vectors, NetworkEmbedder(PixelEncoder())(CROPS, LENGTHS), atol=1e-4)
    wrong = subprocess.run([*command, "3"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "not 3 crops" in wrong.stderr) == (2, True)
