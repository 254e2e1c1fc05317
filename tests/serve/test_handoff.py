"""The files that a review hands off."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import TypeAdapter
from python_calamine import CalamineWorkbook

from polyplink import hand_off_review
from polyplink.core.errors import PolyplinkError
from polyplink.counting.corrections import Correction, append_correction
from polyplink.data.formats.coco import import_coco
from polyplink.data.formats.mot import import_mot
from polyplink.data.formats.side_tables import number_polyps
from polyplink.data.return_boxes import write_places
from polyplink.data.tables import SOURCE_FILES, DataSet, Imported, Places
from polyplink.report.formats import Texts, clock
from polyplink.serve import handoff
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import (
    FOLDER,
    Review,
    corrected_count,
    hand_off,
    identified_data,
    review_schema,
)
from polyplink.serve.possible_misses import Place
from tests.conftest import SampleRun


def test_all_files_have_the_corrected_polyps(desk: Desk, tmp_path: Path) -> None:
    desk.correct(0, {"kind": "not_polyp", "rows": [5]})
    desk.correct(0, {"kind": "merge", "rows": [0, 1, 2, 3, 4]})
    desk.correct(0, {"kind": "done"})
    withdrawn = desk.correct(1, {"kind": "not_polyp", "rows": [5]})
    desk.correct(1, {"kind": "undo", "of": withdrawn["undo"]})
    out = desk.out / FOLDER
    (out / "mot" / "earlier").mkdir(parents=True)
    (out / "mot" / "earlier" / "seqinfo.ini").touch()
    paths = hand_off(desk)
    assert out / "mot" / "earlier" / "seqinfo.ini" not in paths
    names = {str(path.relative_to(out)) for path in paths}
    assert {"polyps.xlsx", "polyps.csv", "views.csv", "report.html", "review.json"} <= names
    review = TypeAdapter(Review).validate_json((out / "review.json").read_text())
    assert review.procedures == corrected_count(desk).procedures
    first = review.procedures[0]
    assert (first.polyps, first.done, first.corrections) == (1, True, 2)
    assert first.reviewers == ("Dr. Rossi",)
    assert review.procedures[1].reviewers == ()
    finished = identified_data(desk, finished=True).procedures["procedure_id"]
    assert finished.to_list() == [first.procedure]
    assert len(first.not_polyps) == 1
    assert [len(polyp.views) for polyp in first.reviewed_polyps] == [5]
    schema_fields = set(review_schema()["$defs"]["ReviewedProcedure"]["properties"])
    assert schema_fields == set(json.loads((out / "review.json").read_text())["procedures"][0])
    table = pl.read_csv(out / "polyps.csv")
    assert table.height == sum(procedure.polyps for procedure in review.procedures)
    counts = pl.read_csv(out / "procedures.csv")
    expected = [(procedure.procedure, procedure.polyps) for procedure in review.procedures]
    assert counts.select("Procedure", "Polyps").rows() == expected
    assert counts["Reviewed"].to_list().count("yes") == sum(o.reviewed for o in review.procedures)
    book = CalamineWorkbook.from_path(out / "polyps.xlsx")
    assert book.sheet_names == ["Polyps", "Procedures", "Notes"]
    for sheet, rows in zip(book.sheet_names[:2], (table, counts.fill_null("")), strict=True):
        assert book.get_sheet_by_name(sheet).to_python() == [rows.columns, *map(list, rows.rows())]
    notes = {note for (note,) in book.get_sheet_by_name("Notes").to_python()}
    assert review.warnings
    assert notes >= {Texts("en")("device"), *review.warnings}
    times = table.select("First seen", "Last seen", "Largest view")
    assert times.row(0) == tuple(  # a spreadsheet reads m:ss as hours and minutes
        f"0:{int(seconds + 0.5) // 60:02d}:{int(seconds + 0.5) % 60:02d}"
        for polyp in first.reviewed_polyps
        for seconds in (polyp.first_s, polyp.last_s, polyp.best_s)
    )
    views = pl.read_csv(out / "views.csv")
    assert views["tracklet"].n_unique() == views.height == 29
    # COCO and MOT files have the corrected tracks and can be imported.
    for data in (import_coco(out / "coco", images=False).data, import_mot(out / "mot").data):
        boxes = data.detections.filter(procedure_id=first.procedure)
        assert boxes["polyp_id"].n_unique() == 1
        assert boxes.height == 5 * 32
    page = (out / "report.html").read_text()
    assert page.count('class="polyp"') == table.height
    removed = clock(desk.procedure(0)["tracklets"][5]["start_s"])
    assert f"Removed in the review as not a polyp: the view at {removed}." in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_track_has_the_number_of_its_polyp(desk: Desk) -> None:
    desk.solve(0).polyps.reverse()  # as after a cut: the first view is not of the first polyp
    numbers = number_polyps(identified_data(desk)).select("polyp_id", "track").rows()
    assert len(numbers) > 2
    assert [int(polyp.rpartition("_P")[2]) for polyp, _ in numbers] == [n for _, n in numbers]


def test_answers_of_another_page_during_a_hand_off_are_in_the_next_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, rows = Desk(desk.out), desk.procedure(0)["groups"][0]["rows"]

    def page(*arguments: Any) -> str:
        monkeypatch.undo()
        other.correct(0, {"kind": "not_polyp", "rows": rows})
        return handoff._page(*arguments)

    monkeypatch.setattr(handoff, "_page", page)
    out, counted = desk.out / FOLDER, []
    for _ in range(2):
        hand_off(desk)
        polyps = json.loads((out / "review.json").read_text())["procedures"][0]["polyps"]
        pictured = (out / "report.html").read_text().split("<section")[1].count("<article")
        boxed = pl.read_csv(out / "views.csv").filter(procedure=desk.names[0])["polyp"].n_unique()
        assert polyps == pictured == boxed
        counted.append(polyps)
    assert counted == [2, 1]


def test_a_polyp_that_the_reviewer_added_is_in_tables_record_and_page(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, *box = desk.boxes(0, 0)["boxes"][0]
    image = desk.prepared.detections.filter(procedure_id=desk.names[0], frame=frame)["image"][0]
    state = desk.correct(0, {"kind": "missed", "frame": frame})
    hand_off(desk)
    out = desk.out / FOLDER
    review = TypeAdapter(Review).validate_json((out / "review.json").read_text())
    *counted, added = review.procedures[0].reviewed_polyps
    assert review.procedures[0].polyps == len(counted) + 1 == state["polyps"]
    assert [polyp.added_at for polyp in counted] == [None] * len(counted)
    assert (added.polyp, added.added_at, added.views) == (f"P{len(counted) + 1}", frame, ())
    table = pl.read_csv(out / "polyps.csv")
    assert table["Added by hand"].to_list().count("yes") == 1
    row = table.filter(pl.col("Added by hand") == "yes").row(0, named=True)
    assert (row["Polyp"], row["Views"], row["First seen"]) == (added.polyp, 0, row["Last seen"])
    page = (out / "report.html").read_text()
    assert page.count("added by hand, seen at") == 1
    assert page.count("<img") == sum(min(6, len(polyp.views)) for procedure in review.procedures
                                     for polyp in procedure.reviewed_polyps) + 1  # fmt: skip
    # The picture is the whole frame, or the place where a polyp may have been missed.
    assert base64.b64encode(desk.frame(0, frame, 480)).decode() in page
    places = [Place(frame, tuple(box))]
    desk.place.cache_clear()
    monkeypatch.setattr(desk, "possible_misses", lambda _: places)
    hand_off(desk)
    place = desk.pictures.patch(desk.names[0], image, tuple(box), 480)
    monkeypatch.setattr(desk.pictures, "_decode", None)  # it is decoded once
    assert desk.place(0, frame, 480) == place
    assert base64.b64encode(place).decode() in (out / "report.html").read_text()
    # Boxes are of the detected polyps alone.
    boxes = import_coco(out / "coco", images=False).data.detections
    assert boxes.filter(procedure_id=desk.names[0])["polyp_id"].n_unique() == len(counted)


def test_procedures_in_subfolders_are_handed_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = identified_data(desk)
    name = pl.col("procedure_id")
    named = name.replace({desk.names[0]: "Müller/1", desk.names[1]: "Müller 1"})
    detections, procedures, polyps = (
        table.with_columns(named) for table in (data.detections, data.procedures, data.polyps)
    )
    renamed = DataSet.of(detections, procedures, polyps)
    monkeypatch.setattr("polyplink.serve.handoff.identified_data", lambda _: renamed)
    hand_off(desk)
    mot = import_mot(desk.out / FOLDER / "mot").data
    assert {"Müller%2F1", "Müller 1", *desk.names[2:]} == {*mot.procedures["procedure_id"]}
    assert mot.detections.height == data.detections.height


def test_imported_boxes_are_returned_with_the_corrected_polyps(desk: Desk, tmp_path: Path) -> None:
    data, folder, source = desk.prepared.data, desk.pictures.folder, tmp_path / "mine.csv"
    data.detections.reverse().write_csv(source)
    n = data.detections.height
    boxes = pl.DataFrame({"file": [0] * n, "item": range(n - 1, -1, -1)})
    write_places(folder, "csv", Imported(data, [], Places([source], boxes)), source)
    try:
        desk.correct(0, {"kind": "not_polyp", "rows": [5]})
        desk.correct(0, {"kind": "merge", "rows": [0, 1, 2, 3, 4]})
        hand_off(desk)
    finally:
        for name in SOURCE_FILES:
            (folder / name).unlink()
    returned = pl.read_csv(desk.out / FOLDER / "boxes-with-tracks" / "mine.csv")
    assert returned.drop("track_id", "polyp").equals(pl.read_csv(source))
    table, polyps = desk.solve(0).table, desk.solve(0).polyps
    boxes_of_procedure = returned.filter(procedure_id=desk.names[0])
    for row, polyp in zip(table.iter_rows(named=True), polyps, strict=True):
        frames = pl.col("frame").is_between(row["first_frame"], row["last_frame"])
        (numbers,) = boxes_of_procedure.filter(frames).select("track_id", "polyp").unique().rows()
        assert numbers[1] == (None if polyp is None else polyp + 1)
    assert boxes_of_procedure["track_id"].n_unique() == table.height
    assert returned["track_id"].n_unique() == 5 * table.height  # numbered over all procedures
    assert boxes_of_procedure["polyp"].drop_nulls().unique().to_list() == [1]


def test_a_hand_off_that_fails_leaves_the_earlier_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> dict[Path, bytes]:
        paths = (desk.out / FOLDER).rglob("*")
        return {path: path.read_bytes() for path in paths if path.is_file()}

    hand_off(desk)
    before = files()
    desk.correct(0, {"kind": "merge", "rows": [0, 1, 2, 3, 4]})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("polyplink.serve.handoff.return_boxes", raise_interrupt)
        hand_off(desk)
    assert files() == before
    hand_off(desk)
    changed = {path.name for path, content in files().items() if content != before[path]}
    assert {"polyps.csv", "review.json", "report.html", "instances.json", "det.txt"} <= changed


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("desk")  # no corrections of other tests
def test_pictures_come_from_recording_or_crops_and_a_hand_off_does_without(
    counted_folder: Path, sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyplink.serve.pictures.SHARP", 16)  # crops of 32 pixels suffice
    data = tmp_path / "data"
    shutil.copytree(sample_run.data, data)
    from_crop = Desk(counted_folder, data).picture(0, 0, 0, 32)
    for crops in data.glob("prepared/*/crops"):
        shutil.rmtree(crops)
    from_recording = Desk(counted_folder, data).picture(0, 0, 0, 32)
    assert b"" < from_recording != from_crop
    procedures = data / "procedures.parquet"
    pl.read_parquet(procedures).with_columns(source=pl.lit("moved")).write_parquet(procedures)
    handed_off = hand_off_review(counted_folder, data=data)
    assert any("5 procedures without pictures (001-001)" in line for line in handed_off.warnings)
    questions = sum(row["questions"] for row in Desk(counted_folder).overview()["procedures"])
    assert any(f"{questions} open questions (001-0" in line for line in handed_off.warnings)
    page = (Desk(counted_folder).out / FOLDER / "report.html").read_text()
    views = pl.read_csv(Desk(counted_folder).out / FOLDER / "views.csv")
    assert page.count("This picture cannot be shown.") == views.height
    assert "<img" not in page


def test_a_hand_off_warns_about_added_polyps_without_a_picture(
    desk: Desk, sample_run: SampleRun, tmp_path: Path
) -> None:
    data = tmp_path / "data"  # with crops of the views
    shutil.copytree(sample_run.data, data)
    procedures = data / "procedures.parquet"
    pl.read_parquet(procedures).with_columns(source=pl.lit("moved")).write_parquet(procedures)
    desk.correct(1, {"kind": "missed", "frame": 0})
    handed_off = hand_off_review(desk.out, data=data)
    assert any("1 procedure without pictures (001-002)" in line for line in handed_off.warnings)


def test_texts_of_reviewers_are_escaped_in_every_file(desk: Desk) -> None:
    append_correction(desk.out, Correction(desk.names[0], "done", reviewer='=1+1"<script>\x1b[31m'))
    hand_off(desk, "it")
    out = desk.out / FOLDER
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page + (out / "polyps.csv").read_text()
    book = CalamineWorkbook.from_path(out / "polyps.xlsx").get_sheet_by_index(0).to_python()
    assert str(book[1][-1]).startswith('=1+1"<script>')  # a text cell, unchanged
    assert pl.read_csv(out / "polyps.csv")["Revisore"][0].startswith("'=1+1")
    with pytest.raises(PolyplinkError, match="no language 'xx'; choose among en, de, it"):
        hand_off(desk, "xx")
