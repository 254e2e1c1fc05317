"""`calibrate --stills`: calibration for a detector on still images in motion."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from polyplink.core.artefacts import file_key
from polyplink.data.files.images import Picture
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.detect.folder import open_detector
from polyplink.detect.onnx import DetectorRecord, OnnxDetector
from polyplink.encoders.adapt import WhitenedEncoder, unwrap_encoder
from polyplink.encoders.build import build_encoder
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import Seen, WeightsRecord, read_record, save_weights, stored_path
from polyplink.stills.annotated_stills import read_stills
from polyplink.stills.detected import _stills_of_parts
from polyplink.stills.still_views import draw_views
from polyplink.tracklets.settings import PrepareSettings
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.conftest import SampleRun
from tests.detect.models import write_model
from tests.encoders.small import SFE


@pytest.fixture(scope="module")
def stills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of grey images with one blue polyp each, two images per group."""
    folder, rng, rows = tmp_path_factory.mktemp("stills"), np.random.default_rng(0), []
    (folder / "csv").mkdir()
    y, x = np.mgrid[:240, :300] + 0.5
    for k in range(12):
        half_axes, centre = rng.uniform(30, 50, 2), rng.uniform([120, 100], [180, 140])
        pixels = np.full((240, 300, 3), rng.integers(80, 150), np.uint8)
        inside = ((x - centre[0]) / half_axes[0]) ** 2 + ((y - centre[1]) / half_axes[1]) ** 2 < 1
        pixels[inside] = [40, 25 * (k // 2), 230]
        Image.fromarray(pixels).save(folder / "csv" / f"{k}.png")
        left, top, w, h = *(centre - half_axes), *(2 * half_axes)
        rows.append((f"g{k // 2}", k % 2, left, top, w, h, f"g{k // 2}-{k}", f"{k}.png"))
    columns = ["procedure_id", "frame", "x", "y", "w", "h", "polyp_id", "image"]
    pl.DataFrame(rows, columns, orient="row").write_csv(folder / "csv" / "detections.csv")
    groups = pl.DataFrame({"procedure_id": [f"g{k}" for k in range(6)]})
    groups.with_columns(width=300, height=240, n_frames=2, dataset=pl.lit("blue polyps")).write_csv(
        folder / "csv" / "procedures.csv"
    )
    succeed("import", "csv", folder / "csv", folder / "data")
    return folder / "data"


def find_blue(image: Picture) -> np.ndarray:
    pixels = image.rgb()
    rows, columns = np.nonzero(pixels[..., 2] > pixels[..., 0] + 51.0)
    if not len(rows):
        return np.empty((0, 5))
    left, top = columns.min(), rows.min()
    return np.array([[left, top, columns.max() + 1 - left, rows.max() + 1 - top, 0.9]])


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX detector; its record says that g0 and an empty image trained it."""
    folder = tmp_path_factory.mktemp("detector")
    (folder / "empty").mkdir()
    files = [folder / "empty" / f"{k}.png" for k in range(3)]
    for k, file in enumerate(files):
        Image.fromarray(np.full((240, 300, 3), 90 + k, np.uint8)).save(file)
    trained_on = ["g0", file_key(files[0])]
    record = {"layout": "nms", "trained_on": trained_on, "name": "blue", "high": 0.5, "low": 0.3}
    (folder / "blue.json").write_text(json.dumps(record))
    box = {"output0": np.array([[[10.0, 8.0, 26.0, 20.0, 0.9, 0.0]]])}
    return write_model(folder / "blue.onnx", box, [1, 3, 64, 64])


def test_stills_of_the_test_are_of_other_groups_and_have_one_box(
    stills: Path, tmp_path: Path
) -> None:
    data = read_data(stills)
    second = data.detections.filter(image="11.png").with_columns(pl.col("x") + 5)
    boxes = pl.concat([data.detections, second])
    write_data(tmp_path, DataSet.of(boxes, data.procedures, data.polyps))
    record = DetectorRecord(trained_on=("g0",))
    (fit, test), warnings = _stills_of_parts(tmp_path, None, None, 6, record)
    assert len(fit.stills) + len(test.stills) == 9
    assert not {still.group for still in fit.stills} & {still.group for still in test.stills}
    assert [part.procedures for part in (fit, test)] == [4, 2]
    assert warnings == [
        "the detector was trained on 2 of 12 stills, which are left out",
        "1 still with more than one box are left out",
    ]


def test_stills_of_one_patient_are_one_group(stills: Path, tmp_path: Path) -> None:
    # As the clips of a case of SUN-SEG, which are procedures that show the same polyp.
    data = read_data(stills)
    cases = data.procedures.with_columns(
        patient=pl.concat_str(pl.lit("case"), pl.int_range(6) // 2)
    )
    write_data(tmp_path, DataSet.of(data.detections, cases, data.polyps))
    (fit, test), warnings = _stills_of_parts(
        tmp_path, None, None, 6, DetectorRecord(trained_on=("g0",))
    )
    assert {len({still.group for still in part.stills}) for part in (fit, test)} == {1}
    # g1 is of the patient that the detector was trained on, by g0.
    assert sorted(int(still.path.stem) for still in (*fit.stills, *test.stills)) == list(
        range(4, 12)
    )
    assert warnings == ["the detector was trained on 4 of 12 stills, which are left out"]


@pytest.mark.slow
def test_a_detector_is_calibrated_and_tested_on_stills(
    sample_run: SampleRun,
    stills: Path,
    detector: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OnnxDetector, "__call__", lambda _, image: find_blue(image))
    command: tuple[str | Path, ...] = ("calibrate", sample_run.weights, "--stills", stills)
    command += ("--detector", detector, "--device", "cpu", "--empty", detector.parent / "empty")
    command += ("--procedures", "6", "--polyps", "2", "--out", tmp_path / "out", "--json")
    result = succeed(*command)
    monkeypatch.setattr(OnnxDetector, "__call__", None)  # a repeat uses the boxes
    again = succeed(*command[:-1])
    assert "no 90 % intervals: too few procedures to fit on" in again.stdout
    figures = json.loads(result.stdout)["test"]
    assert figures == json.loads((tmp_path / "out" / "stills.json").read_text())
    assert figures["procedures"] == 2
    assert figures["polyps_found"] == figures["polyps"] == 4
    assert figures["false_polyps"] == 0
    assert "the detector was trained on 2 of 12 stills, which are left out" in result.stderr
    assert "trained on 1 of 3 images without a polyp, which are left out" in result.stderr
    # The stills of the fit are not those of the test, and none trained the detector.
    parts = [read_data(tmp_path / "out" / "stills" / part) for part in ("fit", "test")]
    assert all(
        set(data.procedures["dataset"]) == {"stills in motion, blue polyps"} for data in parts
    )
    operating = read_record(tmp_path / "out" / "weights.safetensors").operating
    assert operating is not None
    calibration = operating["calibration"]
    assert (calibration["detector"], calibration["material"]) == ("blue", "stills in motion")
    assert calibration["boxes"] == open_detector(str(detector)).origin.key
    assert calibration["procedures"] == 4


def test_a_broken_detector_and_too_few_stills_are_refused(
    sample_run: SampleRun, stills: Path, detector: Path, tmp_path: Path
) -> None:
    options = ("--stills", stills, "-o", tmp_path / "o", "--device", "cpu", "--detector")
    command = ("calibrate", sample_run.weights, *options)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    assert_refused(polyplink(*command, broken), "broken.onnx")
    assert not (tmp_path / "o" / "stills").exists()
    message = "5 patients of the data folder, 3 of them to fit on and 2 to test on: too few for "
    assert_refused(polyplink(*command, detector), f"{message}6 polyps a procedure")
    # The folder of another command is refused before minutes of stills are rendered into it.
    into_a_run = ("-o", sample_run.run, "--polyps", "1", "--procedures", "2")
    assert_refused(polyplink(*command, detector, *into_a_run), "holds a run of `train`")
    assert not (sample_run.run / "stills").exists()
    # Enough to fit on, but not to test on.
    assert_refused(polyplink(*command, detector, "--polyps", "3"), f"{message}3 polyps")
    assert not (tmp_path / "o" / "stills").exists()


@pytest.mark.usefixtures("empty_store")
def test_whitening_is_fitted_on_views_of_stills(stills: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    torch.manual_seed(0)
    encoder = build_encoder(SFE).eval()
    settings = PrepareSettings(size=32, crop_factor=2.0)
    save_weights(weights, encoder, WeightsRecord(encoder.config, settings, {}, Seen(), {}))
    adapt = ("weights", "adapt", weights, stills, "--whiten", "--device", "cpu")
    result = succeed(*adapt, "--in-motion", "3", "--as", "within")
    assert "within: whitening adapted to 48 crops" in result.stdout
    assert "48 crops: too few to whiten by, give 100 or more" in result.stderr
    data = read_data(stills)
    annotated = read_stills(stills, data, data.part(None))
    views = map(torch.from_numpy, draw_views(annotated, 3, 32, 2.0))
    expected = WhitenedEncoder(encoder).fit_within(views).features_map
    adapted = load_encoder(stored_path("within"), torch.device("cpu")).encoder
    assert isinstance(adapted, WhitenedEncoder)
    assert torch.allclose(
        adapted.features_map @ adapted.features_map.T, expected @ expected.T, rtol=1e-3
    )
    succeed(*adapt, "--in-motion", "3", "--least-contrast", "0.16", "--as", "corrected")
    corrected = load_encoder(stored_path("corrected"), torch.device("cpu"))
    assert corrected.record.encoder.least_contrast == 0.16
    assert unwrap_encoder(corrected.encoder).config.least_contrast == 0.16
