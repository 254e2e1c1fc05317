"""A counted folder, opened, corrected and opened again."""

import io
import json
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from polyplink import build_index
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import identified, reviewed
from polyplink.serve.pictures import parse_mask
from tests.conftest import SampleRun
from tests.samples import write_procedures
from tests.serve.loads import measure, write_counted


def pixels(jpeg: bytes) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(jpeg)))


def test_it_opens_as_it_was_counted(desk: Desk, counted: Path) -> None:
    summary = json.loads((counted / "count" / "count.json").read_text())
    seen = desk.overview()
    for own, was in zip(seen["procedures"], summary["procedures"], strict=True):
        assert [own[key] for key in ("polyps", "low", "high", "tracklets", "alarms")] == [
            was[key] for key in ("polyps", "low", "high", "tracklets", "false_alarms")
        ]
        shown = desk.procedure(own["index"])
        by_id = {one["id"]: one["polyp"] for one in shown["tracklets"]}
        assert by_id == {
            t["tracklet_id"]: place
            for place, group in enumerate(was["groups"])
            for t in group["tracklets"]
        }
        assert len(shown["questions"]) >= own["questions"]
        json.dumps(shown)


def test_answers_hold_are_kept_and_can_be_undone(desk: Desk, counted: Path) -> None:
    before = desk.procedure(0)
    group = max(before["groups"], key=lambda one: len(one["rows"]))
    a, b = group["rows"][:2]
    after = desk.correct(0, {"kind": "different", "a": a, "b": b})
    polyp = {one["row"]: one["polyp"] for one in after["tracklets"]}
    assert polyp[a] != polyp[b]
    assert (a, b) not in [(one["a"], one["b"]) for one in after["questions"]]
    assert [one["kind"] for one in after["log"]] == ["different"]
    assert after["log"][0]["reviewer"] == "Dr. Rossi"
    again = Desk(counted)  # nothing is lost when the page is closed
    assert again.procedure(0)["groups"] == after["groups"]
    # Another page answers: both see both answers.
    again.correct(0, {"kind": "same", "a": a, "b": b}, reviewer="you")
    seen = desk.procedure(0)
    assert [one["reviewer"] for one in seen["log"]] == ["Dr. Rossi", "you"]
    assert [one["correction"] for one in seen["conflicts"]] == [after["log"][0]["id"]]
    assert seen["conflicts"][0]["with"] == [seen["log"][1]["id"]]
    for _ in range(2):
        seen = desk.correct(0, {"kind": "undo", "of": desk.procedure(0)["undo"]})
    assert seen["groups"] == before["groups"]
    assert seen["undo"] is None
    assert desk.correct(0, {"kind": "redo", "of": seen["redo"]})["groups"] == after["groups"]
    assert desk.procedure(1)["log"] == []


def test_every_correction_changes_what_it_says(desk: Desk) -> None:
    rows = list(range(6))

    def polyps(kind: str, **given: Any) -> list[int | None]:
        after = desk.correct(0, {"kind": kind, **given})
        found = [one["polyp"] for one in after["tracklets"]]
        assert sorted({p for p in found if p is not None}) == list(range(after["polyps"]))
        return found

    assert polyps("merge", rows=rows) == [0] * 6
    desk.correct(0, {"kind": "undo", "of": desk.procedure(0)["undo"]})
    found = polyps("split", rows=[0, 1, 2], others=[3, 4, 5])
    assert set(found[:3]).isdisjoint(found[3:])
    found = polyps("move", row=0, others=[5])
    assert found[0] == found[5]
    found = polyps("not_polyp", rows=[1])
    assert found[1] is None
    assert desk.procedure(0)["tracklets"][1]["removed"]
    assert polyps("polyp", rows=[1])[1] is not None
    after = desk.correct(0, {"kind": "not_polyp", "rows": rows})
    assert (after["polyps"], after["groups"], after["questions"]) == (0, [], [])
    assert desk.correct(0, {"kind": "done"})["done"]
    assert desk.overview()["done"] == 1
    for place, broken in ((0, {"kind": "same", "a": 0, "b": 9}), (99, {"kind": "done"})):
        with pytest.raises(PolyplinkError):
            desk.correct(place, broken)


def test_pictures_boxes_and_similar_views(desk: Desk, sample_run: SampleRun, counted: Path) -> None:
    shown = desk.procedure(1)
    assert shown["recording"]
    boxes = desk.boxes(1, 2)
    assert [boxes["width"], boxes["height"], len(boxes["boxes"])] == [48, 40, 32]
    first = boxes["boxes"][0]
    frame = pixels(desk.frame(1, first[0]))
    assert frame.shape == (40, 48, 3)
    large = pixels(desk.picture(1, 2, 0, 640))  # a square about the box, cut from the recording
    assert large.shape[0] == large.shape[1] == 40 or large.shape[1] > large.shape[0]
    assert abs(large.mean(axis=(0, 1)) - frame.mean(axis=(0, 1))).max() < 12
    similar = desk.similar(1, 2, 4)
    assert [one["index"] == 1 for one in similar] == [True] * 4 + [False] * 4
    for half in (similar[:4], similar[4:]):
        cosines = [one["similarity"] for one in half]
        assert cosines == sorted(cosines, reverse=True)
    assert (1, 2) not in [(one["index"], one["row"]) for one in similar]
    best = desk.procedure(similar[0]["index"])["tracklets"][similar[0]["row"]]
    assert best["start_s"] == similar[0]["start_s"]
    for call in (
        lambda: desk.picture(1, 2, 99, 640),
        lambda: desk.picture(1, 99, 0, 640),
        lambda: desk.frame(1, 10**6),
        lambda: desk.boxes(1, -1),
    ):
        with pytest.raises(PolyplinkError):
            call()
    masked = Desk(counted, masks=[parse_mask("0, 0, 20, 40")])
    assert pixels(masked.frame(1, first[0]))[:, :18].max() < 30
    for size in (160, 640):
        picture = pixels(masked.picture(1, 2, 0, size)).astype(int)
        dark = picture.max(axis=(0, 2)) < 30  # columns
        assert dark.any()
        assert not dark.all()


def test_folders_that_cannot_be_reviewed_say_why(
    counted: Path, sample_run: SampleRun, tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match=r"count.json is missing"):
        Desk(tmp_path)
    copy = tmp_path / "far" / "away" / "copy"
    shutil.copytree(counted / "count", copy)
    with pytest.raises(PolyplinkError, match="is missing; give it with --data"):
        Desk(copy)  # the data are elsewhere
    Desk(copy, data=sample_run.data).procedure(0)
    (copy / "vectors.parquet").write_bytes(b"PAR1")
    with pytest.raises(PolyplinkError, match=r"vectors.parquet cannot be read .*; count again"):
        Desk(copy, data=sample_run.data).procedure(0)
    summary = json.loads((copy / "count.json").read_text())
    (copy / "count.json").write_text(json.dumps(summary | {"crops": "0" * 16}))
    with pytest.raises(PolyplinkError, match="has changed since it was counted"):
        Desk(copy, data=sample_run.data)
    (copy / "count.json").write_text(json.dumps(summary | {"data": 7}))
    with pytest.raises(PolyplinkError, match="data: Input should be a valid string"):
        Desk(copy)
    (copy / "count.json").write_text(json.dumps(summary | {"data": None}))
    with pytest.raises(PolyplinkError, match="names no data folder"):
        Desk(copy)
    (copy / "count.json").write_text("{}")
    with pytest.raises(PolyplinkError, match="was not written by `polyplink count`"):
        Desk(copy, data=sample_run.data)
    with pytest.raises(PolyplinkError, match="give LEFT,TOP,WIDTH,HEIGHT"):
        parse_mask("1,2,3")
    assert pl.read_parquet(counted / "count" / "vectors.parquet").height == 30


def test_merging_views_merges_their_polyps(desk: Desk) -> None:
    desk.correct(0, {"kind": "split", "rows": [0, 1, 2], "others": [3, 4, 5]})
    desk.correct(0, {"kind": "merge", "rows": [0, 1, 2]})
    before = desk.correct(0, {"kind": "merge", "rows": [3, 4, 5]})
    assert [group["rows"] for group in before["groups"]] == [[0, 1, 2], [3, 4, 5]]
    split = before["log"][0]["id"]
    desk.correct(0, {"kind": "undo", "of": split})
    one, other = (group["rows"][-1] for group in desk.procedure(0)["groups"][:2])
    after = desk.correct(0, {"kind": "merge", "rows": [one, other]})
    assert [group["rows"] for group in after["groups"]] == [[0, 1, 2, 3, 4, 5]]
    assert sorted(after["log"][-1]["rows"]) == [0, 1, 2, 3, 4, 5]


def test_a_tracklet_that_mixes_polyps_is_cut(desk: Desk, counted: Path) -> None:
    before = desk.procedure(0)
    view = before["tracklets"][2]
    assert (view["boxes"], view["pictures"]) == (32, 8)
    after = desk.correct(0, {"kind": "cut", "row": 2, "frame": view["first_frame"] + 18})
    parts = [one for one in after["tracklets"] if one["id"].startswith(view["id"])]
    first = view["first_frame"] + 20  # the next picture, four boxes apart
    assert [one["id"] for one in parts] == [view["id"], f"{view['id']}@{first}"]
    assert [one["boxes"] for one in parts] == [20, 12]
    assert [(one["first_frame"], one["last_frame"]) for one in parts] == [
        (view["first_frame"], first - 1),
        (first, view["last_frame"]),
    ]
    assert [one["row"] for one in parts] == [2, 6]  # the other rows stay
    assert parts[0]["polyp"] != parts[1]["polyp"]
    assert sum(one["boxes"] for one in after["tracklets"]) == 6 * 32
    # Pictures, boxes and vectors are those of the part.
    assert desk.boxes(0, 6)["boxes"][0][0] == first
    assert desk.picture(0, 6, 1, 160) == Desk(counted).picture(0, 6, 1, 160)
    assert np.array_equal(
        pixels(desk.picture(0, 6, 0, 640)), pixels(Desk(counted).picture(0, 6, 0, 640))
    )
    vectors = desk.vectors_of(desk.solve(0).table)
    assert not np.allclose(vectors[2], vectors[6])
    # They are judged apart, cut again, put together, and handed off.
    for kind, a, b in (("different", 6, 0), ("same", 6, 0)):
        after = desk.correct(0, {"kind": kind, "a": a, "b": b})
        together = after["tracklets"][a]["polyp"] == after["tracklets"][b]["polyp"]
        assert together == (kind == "same")
    again = desk.correct(0, {"kind": "cut", "row": 6, "k": 1})
    assert [one["boxes"] for one in again["tracklets"] if one["id"].startswith(view["id"])] == [
        20,
        4,
        8,
    ]
    boxes = identified(desk).detections.filter(procedure_id="001-001")
    assert boxes.height == 6 * 32
    named = boxes.filter(pl.col("frame").is_between(view["first_frame"], view["last_frame"]))
    assert named["polyp_id"].n_unique() >= 2
    review = json.loads(json.dumps(to_plain(reviewed(desk))))["procedures"][0]
    ids = [one["tracklet"] for polyp in review["reviewed_polyps"] for one in polyp["views"]]
    assert sorted(ids) == sorted(one["id"] for one in again["tracklets"])
    for broken in ({"row": 0}, {"row": 0, "k": 8}, {"row": 0, "frame": "1"}, {"row": 99, "k": 1}):
        with pytest.raises(PolyplinkError):
            desk.correct(0, {"kind": "cut", **broken})
    # Opened without weights and crops, it is as it was left; undone, it is as before.
    elsewhere = Desk(counted)
    elsewhere.parts.weights = Path("gone")
    assert elsewhere.procedure(0)["groups"] == again["groups"]
    for _ in range(4):
        after = elsewhere.correct(0, {"kind": "undo", "of": elsewhere.procedure(0)["undo"]})
    assert after["groups"] == before["groups"]


def test_an_index_shows_earlier_views_of_elsewhere(
    desk: Desk, sample_run: SampleRun, counted: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    earlier = write_procedures(tmp_path, procedures=2)
    change_names(earlier)
    build_index(sample_run.run, [earlier, sample_run.data], index=folder, device="cpu")
    found = Desk(counted, masks=[parse_mask("0,0,48,40")], index=folder).similar(0, 1, 4)
    assert found[:8] == desk.similar(0, 1, 4)
    indexed = found[8:]
    assert [one["id"][:2] for one in indexed] == ["E0"] * 4  # not those of the folder itself
    cosines = [one["similarity"] for one in indexed]
    assert cosines == sorted(cosines, reverse=True)
    for one in indexed:
        assert pixels(b64decode(one["picture"].partition(",")[2])).max() < 30  # masked
    with pytest.raises(PolyplinkError, match=r"weights \w+, not of other"):
        summary = json.loads((counted / "count" / "count.json").read_text())
        copy = tmp_path / "copy"
        shutil.copytree(counted / "count", copy)
        (copy / "count.json").write_text(json.dumps(summary | {"weights": "other"}))
        Desk(copy, data=sample_run.data, index=folder)


def change_names(folder: Path) -> None:
    """Procedures of other names than those of the counted folder."""
    for table in ("detections", "procedures", "polyps"):
        rows = pl.read_parquet(folder / f"{table}.parquet")
        named = pl.col("procedure_id").str.replace("001-", "E0-")
        rows.with_columns(named).write_parquet(folder / f"{table}.parquet")
    (folder / "splits.json").write_text("{}")


@pytest.mark.slow
def test_sixty_procedures_open_in_two_seconds_and_answer_in_a_fifth(tmp_path: Path) -> None:
    took = measure(write_counted(tmp_path))  # of the processor: others may use the machine too
    assert took["tracklets"] == 736
    assert took["open_cpu"] < 2
    assert took["slowest_cpu"] < 0.2
