"""Exported encoders: the graphs compute what the encoder does, in the precision asked for."""

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
from polyplink.encoders.weights import Seen, WeightsRecord, record_text, weights_path
from polyplink.tracklets.settings import PrepareSettings
from tests.encoders.small import KINDS, TRANSFORMER, crops, made

openvino = pytest.importorskip("openvino")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

SIDE = 32
CROPS, LENGTHS = crops(13, SIDE).numpy(), [3, 8, 2]
PREPARE = PrepareSettings(crop_factor=1.5, size=SIDE)
SEEN = Seen(trained=[("set", "p1", "p1")])
RECORD = WeightsRecord(TRANSFORMER, PREPARE, {"name": "tiny"}, SEEN, {"epoch": 3})
MULTIPLIES_BF16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
EXAMPLE = Path(__file__).parents[2] / "docs/how-to/embed.cpp"


def tiny(kind: str = "transformer") -> FrameWise:
    encoder = made(KINDS[kind])
    assert isinstance(encoder, FrameWise)
    return encoder


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_encoder(tiny(), tmp_path_factory.mktemp("export") / "wide", RECORD)


@pytest.fixture(scope="module")
def narrow(exported: Path) -> Path:
    return export_encoder(tiny(), exported.with_name("int8"), RECORD, "int8", CROPS)


def worst_cosine(found: np.ndarray, wanted: np.ndarray) -> float:
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(((found * wanted).sum(axis=1) / norms).min())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mve", "sfe", "frames"])
def test_any_encoder_of_frames_gives_its_vectors(kind: str, tmp_path: Path) -> None:
    encoder, record = tiny(kind), WeightsRecord(KINDS[kind], PREPARE, {}, SEEN, {})
    found = ExportedEncoder(export_encoder(encoder, tmp_path / "out", record))
    vectors = found(CROPS, LENGTHS)
    assert vectors.shape == (3, found.width) == (3, encoder.width)
    np.testing.assert_allclose(vectors, NetworkEmbedder(encoder)(CROPS, LENGTHS), atol=1e-5)
    if kind == "frames":  # matrix products are not quantised
        with pytest.raises(PolyplinkError, match=r"not a convolutional network.*; export it wit"):
            export_encoder(encoder, tmp_path / "int8", record, "int8", CROPS)
        assert not (tmp_path / "int8").exists()


def test_tracklets_of_any_lengths_share_a_graph(exported: Path) -> None:
    found, plain = ExportedEncoder(exported), NetworkEmbedder(tiny())
    features = found.frames(CROPS)
    for lengths in ([13], [1] * 13, [1, 11, 1]):
        wanted = plain(CROPS, lengths)
        given = {"features": features, "lengths": np.array(lengths)}
        np.testing.assert_allclose(found._tracklets(given), wanted, atol=1e-5)
        np.testing.assert_allclose(found.tracklets(features, lengths), wanted, atol=1e-5)
    one_by_one = np.concatenate([found.frames(CROPS[i : i + 1]) for i in range(len(CROPS))])
    np.testing.assert_allclose(one_by_one, features, atol=1e-5)
    alone = ExportedEncoder(exported, threads=1)
    np.testing.assert_array_equal(alone(CROPS, LENGTHS), found(CROPS, LENGTHS))


@pytest.mark.slow
def test_an_encoder_whose_graph_differs_is_refused(tmp_path: Path) -> None:
    class Largest(type(tiny("sfe"))):  # type: ignore[misc]
        def aggregate(self, features: torch.Tensor, lengths: Any) -> Tokens:
            parts = torch.split(features, list(lengths))
            return Tokens(torch.stack([part.amax(dim=0) for part in parts]), features)

    encoder = Largest(KINDS["sfe"])
    with pytest.raises(PolyplinkError, match=r"Largest give other vectors .*; .*pool_packed"):
        export_encoder(encoder, tmp_path / "out", RECORD)
    assert not (tmp_path / "out").exists()


def test_bf16_is_computed_if_asked_for_or_refused(exported: Path) -> None:
    try:
        found = ExportedEncoder(exported, "bf16")(CROPS, LENGTHS)
    except PolyplinkError as refusal:
        # oneDNN held to older instructions has no kernel, whatever the processor can do.
        expected = not MULTIPLIES_BF16 or "ONEDNN_MAX_CPU_ISA" in os.environ
        if not expected or "this processor does not compute" not in str(refusal):
            raise
        pytest.skip(str(refusal))
    wide = ExportedEncoder(exported)(CROPS, LENGTHS)
    assert 1e-5 < np.abs(found - wide).max() < 0.2
    assert worst_cosine(found, wide) > 0.99


FIRST_BLOCKS = """
import sys
from pathlib import Path
import numpy as np
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.export import FRAMES_PER_PASS, ExportedEncoder
sys.setswitchinterval(1e-5)  # threads take turns as often as can be
try:
    encoder = ExportedEncoder(Path(sys.argv[1]), "bf16", threads=8)
except PolyplinkError as refusal:
    print(refusal)
else:
    print(len(encoder.frames(np.zeros((16 * FRAMES_PER_PASS, 32, 32, 3), np.uint8))) > 0)
"""


@pytest.mark.slow
def test_threads_that_compute_first_in_bf16_do_not_wait_for_each_other(exported: Path) -> None:
    # Without a first pass in one thread, about every second of these processes never ended.
    for _ in range(4):
        command = [sys.executable, "-c", FIRST_BLOCKS, str(exported)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.stdout == "True\n" or "does not compute" in done.stdout, done.stderr


@pytest.mark.slow
def test_eight_bits_keep_the_direction_of_vectors(exported: Path, narrow: Path) -> None:
    sizes = [(folder / "frames.onnx").stat().st_size for folder in (narrow, exported)]
    assert sizes[0] < sizes[1]
    wanted, embedder = NetworkEmbedder(tiny())(CROPS, LENGTHS), ExportedEncoder(narrow)
    found = embedder(CROPS, LENGTHS)
    assert worst_cosine(found, wanted) > 0.98
    assert np.abs(found - wanted).max() > 1e-6
    assert embedder.precision == "int8"
    assert record_text(embedder.record) == record_text(RECORD)
    with pytest.raises(
        PolyplinkError, match=r"exported for int8 .* not computed in bf16; .*without"
    ):
        ExportedEncoder(narrow, "bf16")
    with pytest.raises(PolyplinkError, match=r"exported for float32 .* in int8; .*with --int8"):
        ExportedEncoder(exported, "int8")
    with pytest.raises(PolyplinkError, match="no precision 'float16'"):
        ExportedEncoder(exported, "float16")


def test_another_operating_point_keeps_the_id(exported: Path, tmp_path: Path) -> None:
    record = WeightsRecord(TRANSFORMER, PREPARE, {}, SEEN, {}, {"origin": "here"})
    found = ExportedEncoder(with_record(exported, tmp_path, record))
    assert found.record.operating == {"origin": "here"}
    assert found.weights_id == ExportedEncoder(exported).weights_id
    np.testing.assert_array_equal(found(CROPS, LENGTHS), ExportedEncoder(exported)(CROPS, LENGTHS))


def test_missing_changed_and_old_files_are_refused(exported: Path, tmp_path: Path) -> None:
    old = tmp_path / "encoder.onnx"
    old.write_bytes(b"a single file, as before")
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


def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "onnx":
            raise ModuleNotFoundError(name="onnx")
        return plain(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PolyplinkError, match=r"needs onnx, .*polyplink\[export\]"):
        export_encoder(tiny(), tmp_path / "out", RECORD)


def test_the_example_in_cpp_gives_the_vectors(exported: Path, tmp_path: Path) -> None:
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
    given = [str(program), str(exported), str(tmp_path / "crops")]
    done = subprocess.run(
        [*given, *map(str, LENGTHS)], capture_output=True, text=True, check=True
    ).stdout
    found = np.array([line.split() for line in done.splitlines()], np.float32)
    np.testing.assert_allclose(found, NetworkEmbedder(tiny())(CROPS, LENGTHS), atol=1e-4)
    wrong = subprocess.run([*given, "3"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "not 3 crops" in wrong.stderr) == (2, True)
