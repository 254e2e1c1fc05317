"""The verbs `index build`, `index add` and `search`."""

import html
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from polyplink import build_index, search
from polyplink.associate.alarms import FEATURES, AlarmModel
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.encode import read_embeddings
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import save_weights
from polyplink.scale.index import Index
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun
from tests.data.videos import write_video
from tests.samples import write_procedures

COMMON = ("--device", "cpu")


@pytest.fixture(scope="module")
def index(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed") / "index"
    result = succeed("index", "build", sample_run.run, sample_run.data, "--index", folder, *COMMON)
    assert "30 views (30 added) of weights" in result.stdout
    return folder


def test_search_returns_the_nearest_views_of_a_tracklet(
    sample_run: SampleRun, index: Path, run_folder: Path, tmp_path: Path
) -> None:
    embeddings = read_embeddings(run_folder / "count" / "vectors.parquet")
    vectors = embeddings.vectors.astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = np.array(embeddings.tracklet_ids)
    query = 8
    command = ("search", sample_run.run, ids[query], "--index", index, "-o", tmp_path, *COMMON)
    matches = printed_json(*command, "-k", "5")
    cosines = vectors @ vectors[query]
    expected = [i for i in np.argsort(-cosines) if i != query][:5]
    assert np.allclose([match["similarity"] for match in matches], cosines[expected], atol=1e-6)
    assert {match["tracklet_id"] for match in matches} == set(ids[expected])
    assert matches == json.loads((tmp_path / "matches.json").read_text())
    assert pl.read_csv(tmp_path / "matches.csv")["similarity"].len() == 5
    page = (tmp_path / "search.html").read_text()
    assert page.count("data:image/jpeg") == 6  # the query and its matches
    assert "no picture" not in page
    assert "not a medical device" in page


def test_search_says_why_there_are_no_pictures(
    sample_run: SampleRun, index: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(index, tmp_path / "elsewhere" / "index")
    out = tmp_path / "o"
    views_like = partial(search, sample_run.run, "001-002:00000", out=out, device="cpu")
    (warning,) = views_like(index=moved, k=5).warnings
    assert warning.startswith("5 of 5 views have no picture")
    page = (out / "search.html").read_text()
    assert warning in html.unescape(page)
    assert page.count(">no picture<") == 5
    assert not views_like(index=index, k=5).warnings


def test_search_filters_and_accepts_pictures_and_videos(
    sample_run: SampleRun, index: Path, tmp_path: Path
) -> None:
    row, vector = Index(index).find("001-002:00000")
    views_like = partial(search, sample_run.run, index=index, out=str(tmp_path / "o"), device="cpu")
    matches = views_like("001-002:00000", k=99, others=True).value
    assert matches.height == 24
    assert row["procedure_id"] not in matches["procedure_id"].to_list()
    matches = views_like("001-002:00000", patient="001-003").value
    assert set(matches["patient"]) == {"001-003"}
    assert ", patient 001-003</title>" in (tmp_path / "o" / "search.html").read_text()
    # A picture of the polyp, complete or with a box, finds its views; so does a frame of a video.
    polyp = {row["tracklet_id"] for row in Index(index).search(vector, 3).rows(named=True)}
    frame = sample_run.root / "frames" / "001-002" / "4.jpg"
    for box in (None, "14,8,16,12", "13.6,8.25,16.4,12"):
        assert polyp & {*views_like(str(frame), k=3, box=box).value["tracklet_id"]}
    video = write_video(tmp_path / "film.mp4", 12)
    command = ("search", sample_run.run, video, "--index", index, "-o", tmp_path / "f", *COMMON)
    result = polyplink(*command, "-k", "2", "--frame", "11", "--box", "4,4,20,20")
    assert "Views like film.mp4, frame 11, box 4,4,20,20" in result.stdout, result.stderr
    assert pl.read_csv(tmp_path / "f" / "matches.csv").height == 2


def test_a_whole_frame_that_is_searched_for_is_named(
    sample_run: SampleRun, index: Path, tmp_path: Path
) -> None:
    frame = tmp_path / "frame.png"
    Image.new("RGB", (640, 480), (90, 60, 50)).save(frame)
    views_like = partial(search, sample_run.run, str(frame), index=index, out=tmp_path / "o")
    (warning,) = views_like(device="cpu").warnings
    assert warning.startswith("The whole picture (640 x 480) was taken")
    assert warning in (tmp_path / "o" / "search.html").read_text()
    assert not views_like(device="cpu", box="9,9,90,90").warnings
    with Image.open(frame) as image:
        image.resize((200, 200)).save(frame)
    assert not views_like(device="cpu").warnings


def test_views_that_a_count_rejects_as_false_alarms_are_not_indexed(
    sample_run: SampleRun, index: Path, tmp_path: Path
) -> None:
    # Weights that reject all boxes of a detector, and a data folder with one detected procedure.
    loaded = load_encoder(sample_run.weights, torch.device("cpu"))
    record, width = loaded.record, Index(index).width
    assert record.operating is not None
    rejects_all = AlarmModel(-9.0, (0.0,) * len(FEATURES), (0.0,) * width, 0.5, "")
    operating = {**record.operating, "alarms": to_plain(rejects_all)}
    weights = tmp_path / "weights.safetensors"
    save_weights(weights, loaded.encoder, replace(record, operating=operating))
    folder = write_procedures(tmp_path / "data", procedures=2, views=1)
    data, detected = read_data(folder), pl.col("procedure_id") == "001-001"
    boxes = data.detections.with_columns(
        score=pl.when(detected).then(0.9), polyp_id=pl.when(~detected).then("polyp_id")
    )
    write_data(folder, DataSet.of(boxes, data.procedures, data.polyps.filter(~detected)))
    indexed = {
        alarms: build_index(
            weights, [folder], index=tmp_path / alarms, alarms=alarms, device="cpu"
        ).value
        for alarms in ("drop", "keep")
    }
    names = {alarms: {name for name, _ in index.procedures()} for alarms, index in indexed.items()}
    assert names == {"drop": {"001-002"}, "keep": {"001-001", "001-002"}}


def test_search_filters_by_date(sample_run: SampleRun, tmp_path: Path) -> None:
    folder, index = Path(shutil.copytree(sample_run.data, tmp_path / "data")), tmp_path / "index"
    data = read_data(folder)
    dates = pl.Series("date", [f"2024-0{month}-10" for month in range(1, 6)])
    tables = data.detections, data.procedures.with_columns(dates), data.polyps, data.splits
    write_data(folder, DataSet.of(*tables))
    assert read_data(folder).keys == data.keys  # dates are not part of the keys of vectors
    build_index(sample_run.run, [folder], index=index, device="cpu")
    options = ("--index", index, "-o", tmp_path / "o", *COMMON)
    command = ("search", sample_run.run, "001-001:00000", *options)
    result = printed_json(*command, "--since", "2024-02-10", "--until", "2024-03-31")
    assert {match["procedure_id"] for match in result} == {"001-002", "001-003"}
    assert_refused(polyplink(*command, "--since", "2024-2-1"), "--since 2024-2-1 is not a date")


def test_folders_are_added_once_and_refused_with_other_boxes(
    sample_run: SampleRun, index: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "index"
    shutil.copytree(index, copy)
    second = polyplink(
        "index", "add", sample_run.run, sample_run.data, "--index", copy, *COMMON, "--json"
    )
    assert json.loads(second.stdout)["added"] == 0
    other = write_procedures(tmp_path, procedures=6, views=2)  # 001-006 is new, the others changed
    less = Path(shutil.copytree(sample_run.data, tmp_path / "less"))
    data = read_data(less)
    boxes = data.detections.filter(pl.col("procedure_id") != "001-002")  # it has lost its views
    write_data(less, DataSet.of(boxes, data.procedures, data.polyps, data.splits))
    for folder, name in ((other, "001-001"), (less, "001-002")):
        refused = polyplink("index", "add", sample_run.run, folder, "--index", copy, *COMMON)
        assert_refused(refused, f"procedure {name} of {folder} is in the index with other boxes")
    assert len(Index(copy)) == 30


def test_invalid_searches_and_indexes_are_refused(
    sample_run: SampleRun, index: Path, tmp_path: Path
) -> None:
    common = ("--index", index, "-o", tmp_path / "o", *COMMON)
    frame = sample_run.root / "frames" / "001-002" / "4.jpg"
    for query, options, message in (
        (frame, ("--box", "900,4,20,20"), "--box 900,4,20,20 is not within a picture of "),
        (frame, ("--box", "9,4,5000,20"), "--box 9,4,5000,20 is not within a picture of "),
        (frame, ("--box", "9,4,0,20"), "--box 9,4,0,20 is not within a picture"),
        (frame, ("--box", "9,4,20"), "--box '9,4,20' is not a rectangle; give LEFT,TOP"),
        ("nothing", ("--box", "1,2,3,4"), "no tracklet 'nothing'"),
        ("nothing", (), "which holds 30; give one of them, such as 001-001:00000, or a picture"),
        ("no-case.jpg", (), "no file no-case.jpg; check the path"),
        (frame.parent, (), "001-002 is a folder; give the id of a tracklet, a picture or a video"),
        ("001-001:00000", ("--patient", "nobody"), "no other view of"),
        ("001-001:00000", ("--min-size", "900", "--histology", "Adenoma"), "--min-size, --hist"),
        ("001-001:00000", ("--histology", "adenomas"), "no histology 'adenomas'; did you mean"),
        ("001-001:00000", ("--frame", "0"), "--frame: 001-001:00000 is a tracklet"),
        ("001-001:00000", ("--box", "1,2,3,4"), "--box: 001-001:00000 is a tracklet"),
        (sample_run.run / "run.json", ("--others", "--frame", "3"), "--others and --frame: "),
        (sample_run.run / "run.json", (), "cannot be searched for (in an unknown image format)"),
    ):
        assert_refused(polyplink("search", sample_run.run, query, *common, *options), message)
    video = tmp_path / "film.mp4"
    video.write_bytes(b"no film")
    assert_refused(polyplink("search", sample_run.run, video, *common), "give --frame N and --box")
    assert_refused(
        polyplink("search", sample_run.run, video, *common, "--frame", "1", "--box", "1,2"),
        "cannot be opened",
    )
    record = json.loads((index / "index.json").read_text())
    other = tmp_path / "other"
    shutil.copytree(index, other)
    (other / "index.json").write_text(json.dumps(record | {"weights": "abc"}))
    with pytest.raises(PolyplinkError, match=rf"of weights abc, not of {record['weights']}"):
        search(sample_run.run, "001-001:00000", index=other, out=tmp_path / "o", device="cpu")
    twice = build_index(
        sample_run.run, [sample_run.data] * 2, index=tmp_path / "twice", device="cpu"
    )
    assert len(twice.value) == 30  # a folder that is named twice is added once
