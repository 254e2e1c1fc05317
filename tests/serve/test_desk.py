"""The desk of a review: a counted folder opened, corrected, and opened again."""

import io
import json
import shutil
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from polyplink import build_index
from polyplink.associate.links import Views
from polyplink.associate.similarity import unit_rows
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.counting import link
from polyplink.counting.corrections import Correction, append_correction
from polyplink.encoders.encode import read_embeddings, write_embeddings
from polyplink.models.shipped import ENCODER, shipped_model
from polyplink.serve.cut_tracklets import PartVectors, cut_rows
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import corrected_count, identified_data
from polyplink.serve.pictures import OPEN_VIDEOS, Pictures, parse_mask
from polyplink.serve.possible_misses import Place
from polyplink.serve.solved import Doubt, question_facts, split_polyps
from tests.conftest import SampleRun
from tests.data.videos import frame_of, number_of, write_video
from tests.samples import write_procedures
from tests.serve.loads import measure, write_counted


def pixels(jpeg: bytes) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(jpeg)))


def test_a_desk_without_corrections_shows_the_count(desk: Desk, counted_folder: Path) -> None:
    summary = json.loads((counted_folder / "count" / "count.json").read_text())
    times = pl.read_csv(counted_folder / "count" / "views.csv")
    overview = desk.overview()
    for procedure, counted_procedure in zip(
        overview["procedures"], summary["procedures"], strict=True
    ):
        assert [procedure[key] for key in ("polyps", "low", "high", "tracklets", "alarms")] == [
            counted_procedure[key] for key in ("polyps", "low", "high", "tracklets", "false_alarms")
        ]
        view = desk.procedure(procedure["index"])
        by_id = {tracklet["id"]: tracklet["polyp"] for tracklet in view["tracklets"]}
        assert by_id == {
            t["tracklet_id"]: place
            for place, group in enumerate(counted_procedure["groups"])
            for t in group["tracklets"]
        }
        assert len(view["questions"]) >= procedure["questions"]
        assert procedure["questions"] == len(counted_procedure["to_look_at"])
        rows = times.filter(procedure=view["id"]).select("tracklet", "start_s", "end_s").rows()
        times_of_view = [
            (tracklet["id"], tracklet["start_s"], tracklet["end_s"])
            for tracklet in view["tracklets"]
        ]
        assert sorted(times_of_view) == sorted(rows)
        json.dumps(view)


def copied_count(counted_folder: Path, out: Path) -> tuple[Path, dict[str, Any]]:
    """The count.json of a copied run, without corrections, and its contents."""
    shutil.copytree(counted_folder, out / "run")
    path = out / "run" / "count" / "count.json"
    (path.parent / "corrections.jsonl").unlink(missing_ok=True)
    return path, json.loads(path.read_text())


def test_polyps_that_may_be_false_alarms_are_asked_about_first(
    counted_folder: Path, tmp_path: Path
) -> None:
    path, summary = copied_count(counted_folder, tmp_path)
    groups = summary["procedures"][0]["groups"]
    chances = [0.7, 0.9, 0.8], [0.5, 0.99, 0.6]  # one certain view is enough
    for group, values in zip(groups, chances, strict=True):
        for tracklet, chance in zip(group["tracklets"], values, strict=True):
            tracklet["shows_polyp"] = chance
    path.write_text(json.dumps(summary))
    desk = Desk(tmp_path / "run", Desk(counted_folder).data)
    doubted = [t["tracklet_id"] for t in groups[0]["tracklets"]]

    def state() -> tuple[int, int, int, int]:
        row = desk.overview()["procedures"][0]
        return row["polyps"], n_doubts(), row["questions"], row["answered"]

    def n_doubts() -> int:
        return sum(question["b"] is None for question in desk.procedure(0)["questions"])

    links = sum(
        question["b"] is not None and question["close"]
        for question in desk.procedure(0)["questions"]
    )
    assert state() == (2, 1, links + 1, 0)
    assert desk.count.procedures[0].questions == len(summary["procedures"][0]["to_look_at"]) + 1
    first = desk.procedure(0)["questions"][0]
    assert [desk.procedure(0)["tracklets"][row]["id"] for row in first["members"]] == doubted
    assert (first["probability"], first["change"]) == (0.9, -1)
    assert first["a"] in first["members"]
    # A polyp after all: the count stays, and is confirmed; undone, it is asked again.
    after = desk.correct(0, {"kind": "polyp", "rows": first["members"]})
    assert (state()[0], n_doubts(), state()[3]) == (2, 0, 1)
    assert after["low"] is None
    desk.correct(0, {"kind": "undo", "of": after["undo"]})
    assert state() == (2, 1, links + 1, 0)
    # Nobody can say: the question is answered, and the count and its interval stay.
    unsure = desk.correct(0, {"kind": "unsure", "rows": first["members"]})
    assert state() == (2, 0, links, 1)
    assert (unsure["corrected"], unsure["corrections"]) == (False, 1)
    assert desk.log()[-1].tracklets == tuple(doubted)
    review = corrected_count(desk).procedures[0]
    assert (review.questions, review.answered, review.corrected) == (links + 1, 1, False)
    desk.correct(0, {"kind": "undo", "of": unsure["undo"]})
    assert state() == (2, 1, links + 1, 0)
    # None: its views are removed.
    desk.correct(0, {"kind": "not_polyp", "rows": first["members"]})
    assert (state()[0], n_doubts(), state()[3]) == (1, 0, 1)
    # A view without the certain one beside it is asked about too, and its answer is counted.
    others = [row for row in range(6) if row not in first["members"]]
    desk.correct(0, {"kind": "split", "rows": others[:1], "others": others[1:]})
    assert (state()[0], n_doubts(), state()[3]) == (2, 1, 1)
    for kind, polyps in (("polyp", 2), ("unsure", 2), ("not_polyp", 1)):
        after = desk.correct(0, {"kind": kind, "rows": others[:1]})
        assert (state()[0], n_doubts(), state()[3]) == (polyps, 0, 2)
        desk.correct(0, {"kind": "undo", "of": after["undo"]})
    # Logs of earlier versions do not say what was asked: answers about polyps of the count do.
    log = [replace(correction, answers_doubt=None) for correction in desk.log()]
    (path.parent / "corrections.jsonl").unlink()
    for correction in log:
        append_correction(path.parent, correction)
    assert (n_doubts(), state()[3]) == (1, 1)


def test_a_question_about_a_polyp_says_what_the_count_becomes_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other polyps may be counted otherwise then, because each link depends on all views."""
    desk = Desk(write_counted(tmp_path, (12, 12, 12, 6, 6)))
    half = dict.fromkeys(desk.prepared.tracklets["tracklet_id"], 0.5)
    monkeypatch.setattr("polyplink.serve.solved.chances_of", lambda counted: half)
    desk.correct(3, {"kind": "missed", "frame": 0})  # no part of what is linked again
    before = desk.procedure(3)
    doubts = [question for question in before["questions"] if question["b"] is None]
    assert [question["change"] for question in doubts] == [0, 0]
    for question in doubts:
        after = desk.correct(3, {"kind": "not_polyp", "rows": question["members"]})
        assert after["polyps"] == before["polyps"] + question["change"]
        desk.correct(3, {"kind": "undo", "of": after["undo"]})
    every_view = desk.solve(3)._replace(doubtful=[Doubt([*range(6)], 0.5, counted=True)])
    assert question_facts(every_view, before["tracklets"], desk.point)[0]["change"] == -2


def test_false_alarms_that_may_be_polyps_are_asked_about(
    counted_folder: Path, tmp_path: Path
) -> None:
    path, summary = copied_count(counted_folder, tmp_path)
    first = summary["procedures"][0]
    polyp = first["groups"].pop(0)
    first["alarms"] = [t | {"shows_polyp": 0.45} for t in polyp["tracklets"]]
    first["alarms"][0]["in_doubt"] = True
    path.write_text(json.dumps(summary))
    desk = Desk(tmp_path / "run", Desk(counted_folder).data)
    assert desk.count.procedures[0].questions == len(first["to_look_at"]) + 1

    def state() -> tuple[int, int, int]:
        row = desk.overview()["procedures"][0]
        return row["polyps"], len(desk.solve(0).doubtful), row["answered"]

    view = desk.procedure(0)
    question = view["questions"][0]
    assert view["tracklets"][question["a"]]["id"] == first["alarms"][0]["tracklet_id"]
    assert (question["b"], question["probability"], question["change"]) == (None, 0.45, 1)
    assert state() == (1, 1, 0)
    for kind, n_polyps in (("polyp", 2), ("not_polyp", 1), ("unsure", 1)):
        after = desk.correct(0, {"kind": kind, "rows": question["members"]})
        assert state() == (n_polyps, 0, 1), kind
        desk.correct(0, {"kind": "undo", "of": after["undo"]})
        assert state() == (1, 1, 0), kind
    # A procedure of which all views were left out has the question, too.
    first["alarms"] += [t for group in first["groups"] for t in group["tracklets"]]
    first["groups"] = []
    path.write_text(json.dumps(summary))
    without_polyps = Desk(tmp_path / "run", Desk(counted_folder).data)
    assert [question["change"] for question in without_polyps.procedure(0)["questions"]] == [1]


def test_the_best_picture_shows_the_largest_box(desk: Desk) -> None:
    boxes = desk.prepared.detections
    width = 10.0 + np.random.default_rng(0).permutation(boxes.height)
    desk.prepared = replace(desk.prepared, detections=boxes.with_columns(w=pl.Series(width)))
    view = desk.procedure(0)
    largest = []
    for row, tracklet in enumerate(view["tracklets"]):
        widths = [box[3] for box in desk.boxes(0, row)["boxes"]][:: desk.prepared.settings.stride]
        assert tracklet["best"] == np.argmax(widths)
        largest.append(max(widths))
    for group in view["groups"]:
        assert group["best"] == max(group["rows"], key=lambda row: largest[row])


def test_answers_apply_are_stored_and_can_be_undone(desk: Desk, counted_folder: Path) -> None:
    before = desk.procedure(0)
    group = max(before["groups"], key=lambda side: len(side["rows"]))
    a, b = group["rows"][:2]
    after = desk.correct(0, {"kind": "different", "a": a, "b": b})
    polyp = {tracklet["row"]: tracklet["polyp"] for tracklet in after["tracklets"]}
    assert polyp[a] != polyp[b]
    assert (a, b) not in [(question["a"], question["b"]) for question in after["questions"]]
    assert [entry["kind"] for entry in after["log"]] == ["different"]
    assert after["log"][0]["reviewer"] == "Dr. Rossi"
    reopened = Desk(counted_folder)  # corrections are stored at once
    assert reopened.procedure(0)["groups"] == after["groups"]
    # Another page corrects too: both show both corrections.
    reopened.correct(0, {"kind": "same", "a": a, "b": b}, reviewer="you")
    current = desk.procedure(0)
    assert [entry["reviewer"] for entry in current["log"]] == ["Dr. Rossi", "you"]
    assert [entry["correction"] for entry in current["conflicts"]] == [after["log"][0]["id"]]
    assert current["conflicts"][0]["with"] == [current["log"][1]["id"]]
    for _ in range(2):
        current = desk.correct(0, {"kind": "undo", "of": desk.procedure(0)["undo"]})
    assert current["groups"] == before["groups"]
    assert current["undo"] is None
    assert desk.correct(0, {"kind": "redo", "of": current["redo"]})["groups"] == after["groups"]
    assert desk.procedure(1)["log"] == []


def test_an_answer_about_moved_rows_is_refused(desk: Desk) -> None:
    """Another page has cut a tracklet since this one was loaded."""
    n_tracklets = len(desk.procedure(0)["tracklets"])
    with pytest.raises(PolyplinkError, match=r"another page has cut .*; reload the page"):
        desk.correct(0, {"kind": "done", "tracklets": n_tracklets - 1})
    assert desk.correct(0, {"kind": "done", "tracklets": n_tracklets})["done"]


def test_every_correction_changes_the_polyps_as_intended(desk: Desk) -> None:
    rows = list(range(6))

    def polyps(kind: str, **fields: Any) -> list[int | None]:
        after = desk.correct(0, {"kind": kind, **fields})
        polyp_of_row = [tracklet["polyp"] for tracklet in after["tracklets"]]
        assert sorted({p for p in polyp_of_row if p is not None}) == list(range(after["polyps"]))
        return polyp_of_row

    assert polyps("merge", rows=rows) == [0] * 6
    desk.correct(0, {"kind": "undo", "of": desk.procedure(0)["undo"]})
    polyp_of_row = polyps("split", rows=[0, 1, 2], others=[3, 4, 5])
    assert set(polyp_of_row[:3]).isdisjoint(polyp_of_row[3:])
    for _ in range(2):  # the second time, it moves within its polyp, as if another page were faster
        polyp_of_row = polyps("move", row=0, others=[5])
        assert polyp_of_row[0] == polyp_of_row[5]
    assert all(conflict["with"] for conflict in desk.procedure(0)["conflicts"])
    polyp_of_row = polyps("not_polyp", rows=[1])
    assert polyp_of_row[1] is None
    assert desk.procedure(0)["tracklets"][1]["removed"]
    assert polyps("polyp", rows=[1])[1] is not None
    tracklets = desk.correct(1, {"kind": "polyp", "rows": [1]})["tracklets"]
    assert [tracklet["row"] for tracklet in tracklets if tracklet["decided"]] == [1]
    after = desk.correct(0, {"kind": "not_polyp", "rows": rows})
    assert (after["polyps"], after["groups"], after["questions"]) == (0, [], [])
    assert desk.correct(0, {"kind": "done"})["done"]
    assert desk.overview()["done"] == 1
    for place, invalid in ((0, {"kind": "same", "a": 0, "b": 9}), (99, {"kind": "done"})):
        with pytest.raises(PolyplinkError):
            desk.correct(place, invalid)


def test_a_question_without_a_decision_comes_back_when_it_is_counted_otherwise(desk: Desk) -> None:
    question = desk.procedure(0)["questions"][0]
    a, b, joined = (question[name] for name in ("a", "b", "joined"))

    def is_asked() -> bool:
        return (a, b) in [
            (question["a"], question["b"]) for question in desk.procedure(0)["questions"]
        ]

    desk.correct(0, {"kind": "unsure", "a": a, "b": b})
    assert desk.log()[-1].joined == joined
    assert (is_asked(), desk.overview()["procedures"][0]["answered"]) == (False, 1)
    desk.correct(0, {"kind": "undo", "of": desk.log()[-1].id})
    append_correction(desk.out, replace(desk.log()[0], id="before", joined=not joined))
    assert (is_asked(), desk.overview()["procedures"][0]["answered"]) == (True, 0)
    desk.correct(0, {"kind": "unsure", "a": a, "b": b})
    assert (is_asked(), desk.overview()["procedures"][0]["answered"]) == (False, 1)


def test_an_answer_names_the_polyps_that_it_splits_without_being_about_them(desk: Desk) -> None:
    solved = desk.solve(0)
    names = solved.table["tracklet_id"].to_list()
    before = solved._replace(polyps=[0, 0, 1, 1, 2, 2])

    def split(kind: Any, *tracklets: int, others: tuple[int, ...] = ()) -> list[list[int]]:
        a, b = (tuple(names[row] for row in rows) for rows in (tracklets, others))
        return split_polyps(Correction("v", kind, a, b), before, after)

    after = solved._replace(polyps=[0, 1, 2, 2, None, 3])
    assert split("not_polyp", 4) == [[0, 1]]
    assert split("different", 0, others=(1,)) == []  # what the answer is about
    assert split("different", 2, others=(5,)) == [[0, 1]]
    assert split("done") == []
    after = solved._replace(polyps=[0, 0, 1, None, 2, 2])
    assert split("not_polyp", 3) == []
    assert desk.correct(0, {"kind": "merge", "rows": [0, 1, 2, 3, 4, 5]})["split"] == []


def test_pictures_boxes_and_similar_views(
    desk: Desk, sample_run: SampleRun, counted_folder: Path
) -> None:
    procedure = desk.procedure(1)
    assert procedure["recording"]
    boxes = desk.boxes(1, 2)
    assert [procedure["width"], procedure["height"], len(boxes["boxes"])] == [48, 40, 32]
    first = boxes["boxes"][0]
    frame = pixels(desk.frame(1, first[0]))
    assert frame.shape == (40, 48, 3)
    large = pixels(desk.picture(1, 2, 0, 640))  # a square around the box, cut from the recording
    assert large.shape[0] == large.shape[1] == 40 or large.shape[1] > large.shape[0]
    assert abs(large.mean(axis=(0, 1)) - frame.mean(axis=(0, 1))).max() < 12
    similar = desk.similar(1, 2, 4)
    assert [match["index"] == 1 for match in similar] == [True] * 4 + [False] * 4
    for part in (similar[:4], similar[4:]):
        cosines = [match["similarity"] for match in part]
        assert cosines == sorted(cosines, reverse=True)
    assert (1, 2) not in [(match["index"], match["row"]) for match in similar]
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
    masked = Desk(counted_folder, masks=[parse_mask("0, 0, 20, 40")])
    assert pixels(masked.frame(1, first[0]))[:, :18].max() < 30
    for size in (160, 640):
        picture = pixels(masked.picture(1, 2, 0, size)).astype(int)
        dark = picture.max(axis=(0, 2)) < 30  # columns
        assert dark.any()
        assert not dark.all()


def test_masks_cover_stored_crops_at_their_scale(counted_folder: Path) -> None:
    pictures = Desk(counted_folder, masks=[parse_mask("15,4,3,3")]).pictures
    crop = np.full((64, 64, 3), 255, dtype=np.uint8)  # of 20 x 20 pixels from (10, 2)
    dark = pixels(pictures.masked_crop(crop, [10, 2, 30, 22], 64)).max(axis=2) < 128
    rows, columns = (np.flatnonzero(dark.any(axis)) for axis in (1, 0))
    # (4 - 2) * 3.2 to (7 - 2) * 3.2, and (15 - 10) * 3.2 to (18 - 10) * 3.2, rounded outwards.
    assert (rows.tolist(), columns.tolist()) == ([*range(6, 16)], [*range(16, 26)])


def test_folders_that_cannot_be_reviewed_are_refused(
    counted_folder: Path, sample_run: SampleRun, tmp_path: Path
) -> None:
    copy = tmp_path / "far" / "away" / "copy"
    shutil.copytree(counted_folder / "count", copy)
    with pytest.raises(PolyplinkError, match="is missing; move it back, or give it with --data"):
        Desk(copy)  # the data folder is not where the count names it
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
    assert pl.read_parquet(counted_folder / "count" / "vectors.parquet").height == 30


def test_merging_views_merges_their_polyps(desk: Desk) -> None:
    desk.correct(0, {"kind": "split", "rows": [0, 1, 2], "others": [3, 4, 5]})
    desk.correct(0, {"kind": "merge", "rows": [0, 1, 2]})
    before = desk.correct(0, {"kind": "merge", "rows": [3, 4, 5]})
    assert [group["rows"] for group in before["groups"]] == [[0, 1, 2], [3, 4, 5]]
    split = before["log"][0]["id"]
    desk.correct(0, {"kind": "undo", "of": split})
    first_row, second_row = (group["rows"][-1] for group in desk.procedure(0)["groups"][:2])
    after = desk.correct(0, {"kind": "merge", "rows": [first_row, second_row]})
    assert [group["rows"] for group in after["groups"]] == [[0, 1, 2, 3, 4, 5]]
    assert sorted(after["log"][-1]["rows"]) == [0, 1, 2, 3, 4, 5]
    # A view that was left out is counted again.
    assert desk.correct(0, {"kind": "not_polyp", "rows": [5]})["tracklets"][5]["polyp"] is None
    after = desk.correct(0, {"kind": "merge", "rows": [0, 5]})
    assert [group["rows"] for group in after["groups"]] == [[0, 1, 2, 3, 4, 5]]


def test_polyps_that_look_alike_are_named_as_corrected(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overlap(views: Views) -> np.ndarray:
        """The last two views share a frame."""
        shared = np.zeros((len(views.start),) * 2, np.bool_)
        shared[-1, -2] = shared[-2, -1] = True
        return shared

    monkeypatch.setattr(Views, "overlap", property(overlap))
    monkeypatch.setattr(link, "ALIKE", 0.0)

    def alike(state: dict[str, Any]) -> list[str]:
        return [line for line in state["warnings"]["en"] if "look alike" in line]

    removed = desk.correct(0, {"kind": "not_polyp", "rows": [0]})
    a, b = (removed["tracklets"][row]["polyp"] + 1 for row in (4, 5))
    assert f"{removed['id']}: {min(a, b)}, {max(a, b)};" in alike(removed)[0]
    assert alike(desk.overview()) == alike(removed)
    # Another view of the same polyp may be the one that the reviewer compared.
    polyp_of_row = [tracklet["polyp"] for tracklet in removed["tracklets"]]
    first, second = polyp_of_row.index(a - 1), polyp_of_row.index(b - 1)
    assert {first, second} != {4, 5}
    for answer in (
        {"kind": "merge", "rows": [4, 5]},
        {"kind": "different", "a": 4, "b": 5},
        {"kind": "different", "a": first, "b": second},
    ):
        answered = desk.correct(0, answer)
        assert not [line for line in alike(answered) if removed["id"] in line]
        assert alike(desk.correct(0, {"kind": "undo", "of": answered["undo"]})) == alike(removed)


def test_missed_polyps_are_added_to_the_count_and_removed(desk: Desk, counted_folder: Path) -> None:
    before = desk.procedure(0)
    later = desk.correct(0, {"kind": "missed", "frame": 40})
    after = desk.correct(0, {"kind": "missed", "frame": 8})
    row = desk.overview()["procedures"][0]
    assert after["polyps"] == row["polyps"] == before["polyps"] + 2
    assert after["groups"] == before["groups"]  # polyps with views keep their numbers
    assert [polyp["frame"] for polyp in after["missed"]] == [8, 40]
    assert after["missed"][0]["at_s"] == round(8 / desk.rates[desk.names[0]], 2)
    assert (after["low"], after["high"], after["corrected"]) == (None, None, True)
    assert Desk(counted_folder).procedure(0)["missed"] == after["missed"]
    with pytest.raises(PolyplinkError, match="already added in frame 8"):  # by another page
        desk.correct(0, {"kind": "missed", "frame": 8})
    undone = desk.correct(0, {"kind": "undo", "of": later["missed"][0]["id"]})
    assert [polyp["frame"] for polyp in undone["missed"]] == [8]
    # Without any view, the count is what the reviewer added.
    only = desk.correct(0, {"kind": "not_polyp", "rows": list(range(6))})
    assert (only["polyps"], only["groups"]) == (1, [])
    for frame in (-1, before["n_frames"], "8", True, None):
        with pytest.raises(PolyplinkError, match="no frame"):
            desk.correct(0, {"kind": "missed", "frame": frame})


def test_a_place_is_open_until_it_is_added_or_dismissed(
    desk: Desk, counted_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [Place(frame, (4.0, 4.0, 9.0, 9.0)) for frame in (8, 40, 90)]
    monkeypatch.setattr(Desk, "_possible_misses", lambda *_: places)
    desk = Desk(counted_folder)
    before = desk.procedure(0)
    assert [place["frame"] for place in before["places"]] == [8, 40, 90]
    # It decides nothing: count and interval stay, and it alone does not make a count corrected.
    after = desk.correct(0, {"kind": "not_missed", "frame": 40})
    assert [place["frame"] for place in after["places"]] == [8, 90]
    same = ("polyps", "low", "high", "corrected", "groups", "questions", "missed", "done")
    assert [after[key] for key in same] == [before[key] for key in same]
    assert not after["corrected"]
    assert (after["corrections"], after["log"][-1]["kind"]) == (1, "not_missed")
    assert after["log"][-1]["at_s"] == round(40 / desk.rates[desk.names[0]], 2)
    assert Desk(counted_folder).procedure(0)["places"] == after["places"]
    # Not again, not at an added polyp, not where there is no place.
    desk.correct(0, {"kind": "missed", "frame": 90})
    for frame in (40, 90, 41, "8", True, None):
        with pytest.raises(PolyplinkError, match="no open place in frame"):
            desk.correct(0, {"kind": "not_missed", "frame": frame})
    # Undone, it is open again; after the end of a review it opens the procedure.
    undone = desk.correct(0, {"kind": "undo", "of": after["log"][-1]["id"]})
    assert [place["frame"] for place in undone["places"]] == [8, 40, 90]
    assert desk.correct(0, {"kind": "done"})["done"]
    assert not desk.correct(0, {"kind": "not_missed", "frame": 8})["done"]


def test_frames_of_a_recording_are_shown_also_without_a_box(desk: Desk, tmp_path: Path) -> None:
    pytest.importorskip("av")
    prepared, name = desk.prepared, desk.names[0]
    write_video(tmp_path / f"{name}.mp4", 9)
    for other in (f"{name}.txt", f"{name}.part.mp4"):
        (tmp_path / other).touch()
    procedures = prepared.data.procedures.with_columns(source=pl.lit("."))
    data = replace(prepared.data, procedures=procedures)
    named = prepared.detections.with_columns(image=pl.format(f"{name}.mp4#{{}}", "frame"))
    for boxes in (named.filter(frame=5), named.clear()):
        pictures = Pictures(replace(prepared, detections=boxes, data=data), tmp_path)
        assert pictures.has_frames(name)
        assert pictures.video_of(name) == f"{name}.mp4"
        assert number_of(pixels(pictures.frame(name, 7))) == 7
        assert pictures.image(name, 7) == f"{name}.mp4#7"  # of a place, also without its image
        masked = Pictures(pictures.prepared, tmp_path, field=True)
        field = masked.field_of(name)
        assert field is not None
        assert pixels(masked.frame(name, 7)).shape[:2] == field.shape
    # A name that no file can have.
    renamed = replace(data, procedures=procedures.with_columns(procedure_id=pl.lit("/case.mp4")))
    pictures_of_none = Pictures(replace(prepared, detections=named.clear(), data=renamed), tmp_path)
    assert not pictures_of_none.has_frames("/case.mp4")
    # Of many recordings, those used last are open.
    for number in range(OPEN_VIDEOS + 2):
        write_video(tmp_path / f"other{number}.mp4", 2)
        assert not isinstance(pictures.read(name, f"other{number}.mp4#1"), str)
    assert len(pictures._videos) == OPEN_VIDEOS
    assert number_of(pixels(pictures.frame(name, 3))) == 3
    # A folder with an image for every frame, and one with another number of images.
    n_frames = desk.procedure(0)["n_frames"]
    (tmp_path / "images").mkdir()
    for k in range(n_frames):
        Image.fromarray(frame_of(k)).save(tmp_path / "images" / f"{k}.png")
    named = prepared.detections.with_columns(image=pl.format("images/{}.png", "frame"))
    for boxes in (named, named.filter(frame=5)):
        pictures = Pictures(replace(prepared, detections=boxes, data=data), tmp_path)
        assert number_of(pixels(pictures.frame(name, 100))) == 100
    shutil.copy(tmp_path / "images" / "0.png", tmp_path / "images" / "title.png")
    pictures = Pictures(replace(prepared, detections=named.filter(frame=5), data=data), tmp_path)
    assert pictures.any_frame(name)  # by the numbers in the names
    assert number_of(pixels(pictures.frame(name, 100))) == 100
    (tmp_path / "images" / "0.png").unlink()
    assert not Pictures(replace(prepared, detections=named, data=data), tmp_path).any_frame(name)
    assert not desk.pictures.any_frame(name)  # its frames are images, known by their boxes


def test_a_move_that_separates_the_polyp_of_its_target_says_so(desk: Desk) -> None:
    cut = desk.correct(0, {"kind": "cut", "row": 4, "k": 4})
    polyp = [tracklet["polyp"] for tracklet in cut["tracklets"]]
    assert polyp[4] != polyp[5] == polyp[6]  # row 6 is the second part of the view
    moved = desk.correct(0, {"kind": "move", "row": 4, "others": [5, 6]})
    polyp = [tracklet["polyp"] for tracklet in moved["tracklets"]]
    assert polyp[4] == polyp[5] != polyp[6]  # the parts of a cut show two polyps
    assert (moved["split"], moved["conflicts"]) == ([[5, 6]], [])
    within = desk.correct(0, {"kind": "move", "row": 0, "others": [1, 2]})
    assert within["split"] == []


def test_vectors_of_the_count_are_scaled_once_for_all_searches(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.correct(0, {"kind": "cut", "row": 0, "k": 3})
    scaled: list[int] = []

    def count_rows(vectors: np.ndarray) -> np.ndarray:
        scaled.append(len(vectors))
        return unit_rows(vectors)

    monkeypatch.setattr("polyplink.serve.desk.unit_rows", count_rows)
    views = [desk.similar(0, row, 99) for row in (1, 2)]
    assert scaled == [len(desk.vectors)] + [1, 1] * 2  # and the two parts for each search
    monkeypatch.undo()
    for row, others in zip((1, 2), views, strict=True):
        vectors = desk.row_vectors(desk.solve(0).table, unit=True)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
        by_row = {view["row"]: view["similarity"] for view in others if view["index"] == 0}
        cosines = unit_rows(desk.row_vectors(desk.solve(0).table)) @ vectors[row]
        assert by_row == {
            other: pytest.approx(cosine, abs=1e-4)
            for other, cosine in enumerate(cosines)
            if other != row
        }


def test_parts_of_a_cut_view_are_among_the_similar_views(desk: Desk) -> None:
    tracklets = desk.correct(0, {"kind": "cut", "row": 2, "k": 4})["tracklets"]
    vectors = unit_rows(desk.row_vectors(desk.solve(0).table))
    for index, row in ((0, 2), (0, 5), (1, 0)):
        similar = desk.similar(index, row, 99)
        by_place = {(view["index"], view["row"]): view for view in similar}
        assert len(by_place) == len(similar) == 5 * 6 + 1 - 1  # one view is cut; without itself
        assert {(0, 2), (0, 6)} - {(index, row)} <= by_place.keys()
        if index == 0:
            for other in {*range(7)} - {row}:
                view = by_place[0, other]
                cosine = float(vectors[row] @ vectors[other])
                assert view["similarity"] == pytest.approx(cosine, abs=1e-4)
                assert view["start_s"] == tracklets[other]["start_s"]


def parts_of(view: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """The tracklets that a view was cut into."""
    return [tracklet for tracklet in state["tracklets"] if tracklet["id"].startswith(view["id"])]


def test_a_cut_divides_a_tracklet_into_two_views(desk: Desk, counted_folder: Path) -> None:
    before = desk.procedure(0)
    view = before["tracklets"][2]
    assert (view["boxes"], view["pictures"]) == (32, 8)
    after = desk.correct(0, {"kind": "cut", "row": 2, "frame": view["first_frame"] + 18})
    parts = parts_of(view, after)
    first = view["first_frame"] + 20  # the next picture; pictures are four boxes apart
    assert [tracklet["id"] for tracklet in parts] == [view["id"], f"{view['id']}@{first}"]
    assert [tracklet["boxes"] for tracklet in parts] == [20, 12]
    assert [(tracklet["first_frame"], tracklet["last_frame"]) for tracklet in parts] == [
        (view["first_frame"], first - 1),
        (first, view["last_frame"]),
    ]
    assert [tracklet["row"] for tracklet in parts] == [2, 6]  # the other rows are unchanged
    assert parts[0]["polyp"] != parts[1]["polyp"]
    assert sum(tracklet["boxes"] for tracklet in after["tracklets"]) == 6 * 32
    # Each part has its pictures, boxes and vector.
    assert desk.boxes(0, 6)["boxes"][0][0] == first
    assert desk.picture(0, 6, 1, 160) == Desk(counted_folder).picture(0, 6, 1, 160)
    assert np.array_equal(
        pixels(desk.picture(0, 6, 0, 640)), pixels(Desk(counted_folder).picture(0, 6, 0, 640))
    )
    vectors = desk.row_vectors(desk.solve(0).table)
    assert not np.allclose(vectors[2], vectors[6])
    # Vectors of an earlier count, by other weights, are not read.
    stored = read_embeddings(desk.parts.path)
    of_other_weights = replace(stored, vectors=stored.vectors + 1, weights_id="other")
    write_embeddings(desk.parts.path, of_other_weights)
    counted_again = Desk(counted_folder)
    assert np.allclose(counted_again.row_vectors(counted_again.solve(0).table), vectors)
    counted_again = Desk(counted_folder)
    counted_again.parts.count = replace(counted_again.count, weights="other")
    with pytest.raises(PolyplinkError, match="are not the weights of the count"):
        counted_again.parts.of(desk.solve(1).table.row(0, named=True))
    # The last part ends with the tracklet, between two pictures.
    shorter = desk.prepared.tracklets[:1].with_columns(n=pl.lit(30, pl.Int32))
    cut = cut_rows(shorter, {shorter["tracklet_id"][0]: [8]}, desk.prepared)
    assert (cut["n"].to_list(), cut["last_frame"].to_list()) == ([8, 22], [7, 29])
    # Parts can be corrected separately, cut again, joined, and handed off.
    for kind, a, b in (("different", 6, 0), ("same", 6, 0)):
        after = desk.correct(0, {"kind": kind, "a": a, "b": b})
        are_together = after["tracklets"][a]["polyp"] == after["tracklets"][b]["polyp"]
        assert are_together == (kind == "same")
    with_last = desk.correct(0, {"kind": "same", "a": 6, "b": 5})  # in order of time, not of rows
    (rows,) = [group["rows"] for group in with_last["groups"] if 5 in group["rows"]]
    assert rows.index(6) < rows.index(5)
    desk.correct(0, {"kind": "undo", "of": with_last["undo"]})
    cut_again = desk.correct(0, {"kind": "cut", "row": 6, "k": 1})
    assert [part["boxes"] for part in parts_of(view, cut_again)] == [20, 4, 8]
    boxes = identified_data(desk).detections.filter(procedure_id="001-001")
    assert boxes.height == 6 * 32
    boxes_of_view = boxes.filter(
        pl.col("frame").is_between(view["first_frame"], view["last_frame"])
    )
    assert boxes_of_view["polyp_id"].n_unique() >= 2
    review = json.loads(json.dumps(to_plain(corrected_count(desk))))["procedures"][0]
    ids = [
        tracklet["tracklet"] for polyp in review["reviewed_polyps"] for tracklet in polyp["views"]
    ]
    assert sorted(ids) == sorted(tracklet["id"] for tracklet in cut_again["tracklets"])
    # After the last picture of a view, which ends three boxes later, the cut is before it.
    last = desk.procedure(0)["tracklets"][0]["last_frame"]
    at_end = desk.correct(0, {"kind": "cut", "row": 0, "frame": last})
    assert [part["boxes"] for part in parts_of(before["tracklets"][0], at_end)] == [28, 4]
    desk.correct(0, {"kind": "undo", "of": at_end["undo"]})
    invalid_frames: tuple[dict[str, Any], ...] = (
        {"row": 0, "frame": last + 1},
        {"row": 0, "frame": before["tracklets"][0]["first_frame"]},
        {"row": 0, "frame": "1"},
    )
    for invalid in ({"row": 0}, {"row": 0, "k": 8}, *invalid_frames, {"row": 99, "k": 1}):
        with pytest.raises(PolyplinkError):
            desk.correct(0, {"kind": "cut", **invalid})
    # A desk without weights and crops shows the same; after undoing all, the first state.
    elsewhere = Desk(counted_folder)
    elsewhere.parts.weights = Path("gone")
    assert elsewhere.procedure(0)["groups"] == cut_again["groups"]
    for _ in range(4):
        after = elsewhere.correct(0, {"kind": "undo", "of": elsewhere.procedure(0)["undo"]})
    assert after["groups"] == before["groups"]


def test_a_moved_count_uses_the_shipped_encoder_of_this_machine(desk: Desk, tmp_path: Path) -> None:
    shipped = shipped_model(ENCODER)
    count = replace(desk.count, weights=shipped.sha256[:16], weights_file="../gone/e.safetensors")
    assert PartVectors(tmp_path, count, desk.prepared).weights == shipped.path
    named = PartVectors(tmp_path, desk.count, desk.prepared).weights
    assert named == tmp_path / desk.count.weights_file


def test_an_index_adds_similar_views_of_other_folders(
    desk: Desk, sample_run: SampleRun, counted_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    earlier = write_procedures(tmp_path, procedures=1)
    rename_procedures(earlier)
    build_index(sample_run.run, [earlier, sample_run.data], index=folder, device="cpu")
    similar = Desk(counted_folder, masks=[parse_mask("0,0,48,40")], index=folder).similar(0, 1, 4)
    assert similar[:8] == desk.similar(0, 1, 4)
    indexed = similar[8:]
    assert [match["id"][:2] for match in indexed] == ["E0"] * 4  # none of the reviewed folder
    cosines = [match["similarity"] for match in indexed]
    assert cosines == sorted(cosines, reverse=True)
    for match in indexed:
        assert pixels(b64decode(match["picture"].partition(",")[2])).max() < 30  # masked
    with pytest.raises(PolyplinkError, match=r"weights \w+, not of other"):
        summary = json.loads((counted_folder / "count" / "count.json").read_text())
        copy = tmp_path / "copy"
        shutil.copytree(counted_folder / "count", copy)
        (copy / "count.json").write_text(json.dumps(summary | {"weights": "other"}))
        Desk(copy, data=sample_run.data, index=folder)


def rename_procedures(folder: Path) -> None:
    """Rename the procedures of a data folder, so that they differ from those of the review."""
    for table in ("detections", "procedures", "polyps"):
        rows = pl.read_parquet(folder / f"{table}.parquet")
        named = pl.col("procedure_id").str.replace("001-", "E0-")
        rows.with_columns(named).write_parquet(folder / f"{table}.parquet")
    (folder / "splits.json").write_text("{}")


@pytest.mark.slow
def test_sixty_procedures_open_in_two_seconds_and_answer_in_a_fifth(tmp_path: Path) -> None:
    seconds = measure(write_counted(tmp_path))  # CPU time, because the machine may be busy
    assert seconds["tracklets"] == 736
    assert seconds["open_cpu"] < 2
    assert seconds["slowest_cpu"] < 0.2
