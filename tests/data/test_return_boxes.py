"""The files of imported boxes are returned with every box, in order, and its track."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from polyplink.core.parts import FORMATS
from polyplink.data.return_boxes import TABLE, return_boxes, write_places
from polyplink.data.tables import Imported
from tests.data.sample_sets import scored_set

SIZE = (64, 48)
Box = tuple[int, float, float, float | None]  # frame, x, w, score

BOXES: list[Box] = [
    (3, 4.0, 5.0, 0.5),
    (0, 2.5, 5.0, 0.25),
    (3, 1.0, 0.0, 0.75),  # without area: left out by every importer
    (3, 1.0, 9.75, 1.0),
    (5, -8.0, 4.0, 0.5),  # outside of the image: left out
    (5, -2.5, 5.0, 0.07),
    (1, 70.0, 5.0, 0.3),
    (0, 60.5, 8.0, 0.0),
    (4, 30.0, 2.25, 0.99),
]
UNSCORED: list[Box] = [(frame, x, w, None) for frame, x, w, _ in BOXES]


def write_coco_boxes(folder: Path, boxes: list[Box]) -> Path:
    frames = sorted({frame for frame, *_ in boxes}, reverse=True)
    rows = [
        {
            "id": 900 - k,
            "image_id": f"i{f}",
            "bbox": [x, 5, w, 9.0],
            "note": {"\u00e4": [1.0, None]},
        }
        | ({} if score is None else {"score": score})
        for k, (f, x, w, score) in enumerate(boxes)
    ]
    images = [{"id": f"i{f}", "file_name": f"case7_{f}.jpg", "extra": True} for f in frames]
    content = {"info": {"year": 2026}, "images": images, "annotations": rows, "licenses": []}
    path = folder / "mine.json"
    path.write_text(json.dumps(content, indent=2))
    return path


def write_csv_boxes(folder: Path, boxes: list[Box]) -> Path:
    path = folder / "mine.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:  # as spreadsheet programs do
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["note", "procedure_id", "frame", "x", "y", "w", "h", "score"])
        for k, (frame, x, w, score) in enumerate(boxes):
            note = f'a; "quoted"\n{k}'
            writer.writerow([note, "case7", frame, x, 5, w, 9.0, "" if score is None else score])
    return path


def write_mot_boxes(folder: Path, boxes: list[Box]) -> Path:
    path = folder / "case7.txt"
    lines = [f"{f + 1},{9 - k},{x},5.0,{w}, 9,{-1 if s is None else s},-1\r\n"
             for k, (f, x, w, s) in enumerate(boxes)]  # fmt: skip
    path.write_bytes(("\r\n" + "".join(lines)).encode())
    return path


def write_yolo_boxes(folder: Path, boxes: list[Box]) -> Path:
    width, height = SIZE
    for frame in range(6):
        path = folder / "labels" / f"case7_{frame}.txt"
        path.parent.mkdir(exist_ok=True)
        lines = [
            f"0  {(x + w / 2) / width} {9.5 / height} {w / width} {9 / height}"
            + ("" if score is None else f" {score} 77")
            for f, x, w, score in boxes
            if f == frame
        ]
        path.write_text("\n\n".join(lines))
    return folder


WRITERS: dict[str, Callable[[Path, list[Box]], Path]] = {
    "coco": write_coco_boxes,
    "csv": write_csv_boxes,
    "mot": write_mot_boxes,
    "yolo": write_yolo_boxes,
}


def import_boxes(name: str, source: Path, **changes: str) -> Imported:
    options: dict[str, Any] = {"size": SIZE, "identity": "none", "dataset": "mine", **changes}
    imported: Imported = FORMATS[name].read(source, **options)
    return imported


def boxes_in_file(path: Path, name: str) -> list[Any]:
    """The boxes of a file, in order, without the returned columns."""
    if name == "coco":
        content = json.loads(path.read_text())
        records = [{k: v for k, v in row.items() if k not in ("track_id", "polyp")}
                for row in content["annotations"]]  # fmt: skip
        return [{**content, "annotations": records}, *content, *(list(row) for row in records)]
    if name == "csv":
        with path.open(newline="") as file:
            rows = list(csv.reader(file, delimiter=";"))
        return [row[:8] for row in rows]
    lines = path.read_text().splitlines()
    if name == "mot":
        return [[frame, *rest[1:]] for frame, *rest in (line.split(",") for line in lines)]
    rows_of_values = [line.split() for line in lines]
    return [
        values[:5] + [score for score in values[5:6] if "." in score] for values in rows_of_values
    ]


@pytest.mark.parametrize("boxes", [[*UNSCORED[:2], *BOXES[2:]], UNSCORED], ids=["scores", "none"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_box_is_returned_in_its_place_with_its_track(
    name: str, boxes: list[Box], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    source = WRITERS[name](source, boxes)
    imported = import_boxes(name, source)
    data = tmp_path / "data"
    data.mkdir()
    write_places(data, name, imported, source)
    n = imported.data.detections.height
    assert n == sum(w > 0 and x + w > 0 and x < SIZE[0] for _, x, w, _ in boxes)
    # Every second box has a unique track, so that a misplaced box is detected.
    track_ids = [k + 1 if k % 2 else None for k in range(n)]
    tracks = pl.DataFrame({"track_id": track_ids, "polyp": [k and k + 100 for k in track_ids]},
                          schema={"track_id": pl.Int64, "polyp": pl.Int64})  # fmt: skip
    returned = return_boxes(data, imported.data, tracks, tmp_path / "back")
    assert returned is not None
    assert (returned.format, returned.warning) == (name, None)
    for folder in ("tracks", "polyps") if name in ("mot", "yolo") else ("",):
        copy = tmp_path / "back" / folder
        if source.is_file():
            assert boxes_in_file(copy / source.name, name) == boxes_in_file(source, name)
            copy = copy / source.name
        else:
            for path in source.glob("labels/*.txt"):
                returned_path = copy / "labels" / path.name
                assert boxes_in_file(returned_path, name) == boxes_in_file(path, name)
        scored = imported.data.detections["score"].count() > 0
        options = {"sixth": "score" if scored else "track"} if name == "yolo" else {}
        imported_again = import_boxes(name, copy, **options)
        assert imported_again.data.detections.equals(imported.data.detections)
        returned_ids = returned_numbers(name, copy, imported)
        assert returned_ids == [tracks["polyp" if folder == "polyps" else "track_id"].to_list()]


def returned_numbers(name: str, copy: Path, imported: Imported) -> list[list[int | None]]:
    """Track numbers of the imported boxes in a returned file, in the order of the table."""
    assert imported.places is not None
    number_by_place: dict[tuple[int, int], int | None] = {}
    for file, original in enumerate(imported.places.files):
        path = copy if copy.is_file() else copy / "labels" / original.name
        if name == "coco":
            numbers = [row["track_id"] for row in json.loads(path.read_text())["annotations"]]
        elif name == "csv":
            with path.open(newline="") as stream:
                rows = list(csv.DictReader(stream, delimiter=";"))
            numbers = [int(row["track_id"]) if row["track_id"] else None for row in rows]
        elif name == "mot":
            ids = [[*line.split(","), "-1"][1] for line in path.read_text().splitlines()]
            numbers = [None if k == "-1" else int(k) for k in ids]
        else:
            values = [line.split() for line in path.read_text().splitlines()]
            numbers = [int(v[-1]) if len(v) > 5 and "." not in v[-1] else None for v in values]
        number_by_place |= {(file, item): number for item, number in enumerate(numbers)}
    imported_numbers = [number_by_place.pop(place) for place in imported.places.boxes.rows()]
    assert set(number_by_place.values()) <= {None}  # boxes left out by the import have no number
    return [imported_numbers]


def test_boxes_of_other_formats_are_returned_as_a_table_in_order(tmp_path: Path) -> None:
    box = '<box frame="{}" xtl="{}" ytl="2" xbr="40" ybr="9"/>'
    track = '<track id="{}" label="polyp">{}</track>'
    boxes_of_tracks = [[(2, 1.0), (5, 2.0)], [(0, 3.0), (2, 4.0)]]
    tracks = [
        track.format(k, "".join(box.format(*b) for b in boxes))
        for k, boxes in enumerate(boxes_of_tracks)
    ]
    source = tmp_path / "case7.xml"
    source.write_text(f"<annotations>{''.join(tracks)}</annotations>")
    imported = import_boxes("cvat", source)
    write_places(tmp_path, "cvat", imported, source)
    numbers = pl.DataFrame({"track_id": [4, 1, 2, None], "polyp": [1, None, 3, None]})
    returned = return_boxes(tmp_path, imported.data, numbers, tmp_path / "back")
    assert returned is not None
    assert (returned.format, returned.warning) == ("csv", None)
    table = pl.read_csv(tmp_path / "back" / TABLE)
    assert table.select("frame", "x", "track_id", "polyp").rows() == [
        (2, 1.0, 1, None),
        (5, 2.0, None, None),
        (0, 3.0, 4, 1),
        (2, 4.0, 2, 3),
    ]
    # Other tables in place of the imported ones.
    assert return_boxes(tmp_path, scored_set(), numbers, tmp_path / "other") is None
