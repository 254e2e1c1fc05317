"""What leaves a review."""

import json
from pathlib import Path

import polars as pl
import pytest
from pydantic import TypeAdapter
from python_calamine import CalamineWorkbook

from polyplink.core.errors import PolyplinkError
from polyplink.data import import_coco, import_mot
from polyplink.serve import Desk
from polyplink.serve.corrections import Correction, append_correction
from polyplink.serve.handoff import FOLDER, Review, hand_off, review_schema, reviewed


def test_the_files_hold_the_corrected_polyps(desk: Desk, tmp_path: Path) -> None:
    desk.correct(0, {"kind": "not_polyp", "rows": [5]})
    desk.correct(0, {"kind": "merge", "rows": [0, 1, 2, 3, 4]})
    desk.correct(0, {"kind": "done"})
    paths = hand_off(desk)
    out = desk.out / FOLDER
    names = {str(path.relative_to(out)) for path in paths}
    assert {"polyps.xlsx", "polyps.csv", "views.csv", "report.html", "review.json"} <= names
    review = TypeAdapter(Review).validate_json((out / "review.json").read_text())
    assert review.procedures == reviewed(desk).procedures
    first = review.procedures[0]
    assert (first.polyps, first.done, first.corrections) == (1, True, 3)
    assert first.reviewers == ("Dr. Rossi",)
    assert len(first.not_polyps) == 1
    assert [len(polyp.views) for polyp in first.found] == [5]
    known = set(review_schema()["$defs"]["ReviewedProcedure"]["properties"])
    assert known == set(json.loads((out / "review.json").read_text())["procedures"][0])
    table = pl.read_csv(out / "polyps.csv")
    assert table.height == sum(one.polyps for one in review.procedures)
    book = CalamineWorkbook.from_path(out / "polyps.xlsx").get_sheet_by_index(0).to_python()
    assert book == [table.columns, *([*row] for row in table.rows())]
    views = pl.read_csv(out / "views.csv")
    assert views["tracklet"].n_unique() == views.height == 29
    # The tracks are those of the corrected polyps, in formats that are read back.
    for data in (import_coco(out / "coco", images=False).data, import_mot(out / "mot").data):
        own = data.detections.filter(procedure_id=first.procedure)
        assert own["polyp_id"].n_unique() == 1
        assert own.height == 5 * 32
    page = (out / "report.html").read_text()
    assert page.count('class="polyp"') == table.height
    assert "http" not in page.replace("http-equiv", "")


def test_text_from_people_and_data_is_only_text(desk: Desk) -> None:
    append_correction(desk.out, Correction(desk.names[0], "done", reviewer='=1+1"<script>\x1b[31m'))
    hand_off(desk, "it")
    out = desk.out / FOLDER
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page + (out / "polyps.csv").read_text()
    book = CalamineWorkbook.from_path(out / "polyps.xlsx").get_sheet_by_index(0).to_python()
    assert str(book[1][-1]).startswith('=1+1"<script>')  # a text in its cell, as written
    assert pl.read_csv(out / "polyps.csv")["Revisore"][0].startswith("'=1+1")
    with pytest.raises(PolyplinkError, match="no language 'xx'; choose among en, de, it"):
        hand_off(desk, "xx")
