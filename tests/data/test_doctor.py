"""Every check of the doctor: counts against naive loops, messages, images."""

import io
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from polyplink.data.doctor import LICENCES, SEVERITIES, Finding, diagnose, near_names
from polyplink.data.image_files import decode_size
from polyplink.data.tables import DataSet
from tests.data.packing import pack
from tests.data.sample_sets import HEIGHT, WIDTH, data_set, data_sets, procedure_row, small_set
from tests.data.videos import write_video

N_FRAMES = 6
side = st.integers(-80, 160)
box_rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(-1, 7),
        side,
        side,
        st.integers(1, 90),
        st.integers(1, 90),
        st.sampled_from([None, "a_1", "a_2", "b_1", "c_1"]),
    ),
    max_size=12,
)


BOX_CHECKS = ("frame number", "box outside", "box over the edge", "tiny box", "box without polyp")
POLYP_CHECKS = ("unknown polyp", "polyp of another procedure", "polyp twice in a frame", "gap")


def two_procedures(rows: list[tuple[Any, ...]]) -> DataSet:
    polyps = [(f"{p}_{k}", p, None, None, None, None) for p, k in (("a", 1), ("a", 2), ("b", 1))]
    return data_set(rows, polyps, [procedure_row(p, N_FRAMES) for p in "ab"])


def findings_of(data: DataSet, *checks: str) -> list[Finding]:
    return [f for f in diagnose(data, images=False) if f.check in checks or not checks]


def counts(findings: list[Finding]) -> dict[str, int]:
    return {finding.check: finding.count for finding in findings}


@given(box_rows)
def test_counts_of_boxes_polyps_and_gaps_equal_a_naive_loop(rows: list[tuple[Any, ...]]) -> None:
    naive: Counter[str] = Counter()
    earlier = set()
    frames = defaultdict(set)
    for procedure_id, frame, x, y, w, h, polyp_id in rows:
        naive["frame number"] += not 0 <= frame < N_FRAMES
        outside = x + w <= 0 or y + h <= 0 or x >= WIDTH or y >= HEIGHT
        naive["box outside"] += outside
        inside = x >= 0 and y >= 0 and x + w <= WIDTH and y + h <= HEIGHT
        naive["box over the edge"] += not inside and not outside
        naive["tiny box"] += min(w, h) < 8
        if polyp_id is None:
            naive["box without polyp"] += 1
            continue
        naive["unknown polyp"] += polyp_id == "c_1"
        naive["polyp of another procedure"] += polyp_id != "c_1" and polyp_id[0] != procedure_id
        naive["polyp twice in a frame"] += (procedure_id, frame, polyp_id) in earlier
        earlier.add((procedure_id, frame, polyp_id))
        frames[procedure_id, polyp_id].add(frame)
    for numbers in frames.values():
        naive["gap"] += sum(b - a > 1 for a, b in pairwise(sorted(numbers)))
    counted = counts(findings_of(two_procedures(rows), *BOX_CHECKS, *POLYP_CHECKS))
    assert counted == {check: n for check, n in naive.items() if n}


@pytest.mark.parametrize(
    ("row", "severity", "message"),
    [
        (("a", 6, 1, 1, 9, 9, "a_1"), "error", ": a box in frame 6 of 6"),
        (("a", 0, 64, 1, 9, 9, "a_1"), "error", ", frame 0: box (64, 1, 9, 9) is wholly outside"),
        (("a", 0, 60, 1, 9, 9.5, "a_1"), "warning", "(60, 1, 9, 9.5) reaches beyond the image"),
        (("a", 0, 1, 1, 7, 9, "a_1"), "warning", "(1, 1, 7, 9) has a side below 8 pixels"),
        (("a", 3, 1, 1, 9, 9, "c_1"), "error", "a box of c_1, which is not in the table polyps"),
        (("a", 3, 1, 1, 9, 9, "b_1"), "error", ", frame 3: a box of b_1, which belongs to b"),
        (("a", 3, 1, 1, 9, 9, None), "note", ", frame 3: a box without a polyp id"),
    ],
)
def test_messages_name_the_first_location(
    row: tuple[Any, ...], severity: str, message: str
) -> None:
    (finding,) = [f for f in findings_of(two_procedures([row])) if message in f.what]
    assert (finding.severity, finding.count) == (severity, 1)
    assert finding.what.startswith("procedure a")


def test_skipped_frames_and_duplicate_boxes_are_reported() -> None:
    rows = [("a", frame, 1, 1, 9, 9, "a_1") for frame in (0, 2, 4, 4)]
    duplicate, skipped, gap = sorted(
        findings_of(two_procedures(rows), "frames skipped", "gap", "box twice"),
        key=lambda f: f.check,
    )
    assert (skipped.severity, gap.severity, duplicate.count) == ("warning", "note", 1)
    assert skipped.what == "procedure a: boxes of a polyp are usually 2 frames apart"
    assert gap.what == "procedure a: a_1 is absent between frames 0 and 2"
    assert gap.count == 2


def test_a_procedure_under_two_names_is_reported() -> None:
    boxes = [(frame, 4 + frame, 5, 20, 16) for frame in range(5)]
    rows: list[tuple[Any, ...]] = [
        (name, *box, None) for name in "abc" for box in (boxes if name < "c" else boxes[1:])
    ]
    rows += [("d", frame + 1, *sides, None) for frame, *sides in reversed(boxes)]  # b, later
    procedures = [procedure_row(name) for name in "abcd"]
    (finding,) = findings_of(data_set(rows, [], procedures), "procedure twice")
    assert finding.count == 2  # b and d; c has four boxes
    assert finding.what == "procedures a and b have the same boxes"


def test_almost_equal_names_are_reported() -> None:
    names = ["001-001", "1-001", "001_001", "001-010", "Case 1", "case1 ", "CASE-1", "a"]
    assert near_names(names).rows() == [
        ("001-001", "1-001"),
        ("001-001", "001_001"),
        ("Case 1", "CASE-1"),
    ]
    data = small_set()
    procedures = data.procedures.with_columns(patient=pl.Series(["A", "a", "b"]))
    near = DataSet.of(data.detections, procedures, data.polyps)
    (finding,) = findings_of(near, "near names of patient")
    assert finding.what == "table procedures, column patient: A and a are almost the same name"


def test_contents_and_polyps_without_boxes_are_reported() -> None:
    data = small_set()
    notes = [(f.severity, f.check, f.what) for f in findings_of(data)]
    assert notes == [
        ("note", "procedure without box", "procedure 001-010 has no box; its polyps: 0"),
        ("note", "procedure without polyp", "procedure 001-010 has no polyp"),
        ("note", "procedure with one polyp", "procedure 001-009 has one polyp"),
        ("note", "licence", f"real-colon: {'; '.join(LICENCES['real-colon'][:2])}"),
    ]
    fewer = replace(data, detections=data.detections.filter(pl.col("frame") == 0))
    (finding,) = findings_of(fewer, "polyp without box")
    assert (finding.severity, finding.count) == ("warning", 2)
    assert finding.what == "procedure 001-001: no box of 001-001_2"


def split_set(patients: dict[str, str], splits: dict[str, list[str]]) -> DataSet:
    rows = [procedure_row(name, patient=patient) for name, patient in patients.items()]
    return data_set([], [], rows, splits)


SPLITS = (
    "procedure in two parts",
    "patient in two parts",
    "unknown procedure in a part",
    "procedure in no part",
    "procedure twice in a part",
)


def test_problems_of_splits_are_reported() -> None:
    patients = {"a": "p", "b": "p", "c": "q", "d": "r"}
    data = split_set(patients, {"train": ["a", "c"], "eval": ["b", "c"], "test": ["b", "z"]})
    assert [(f.severity, f.count, f.what) for f in findings_of(data, *SPLITS)] == [
        ("error", 2, "splits.json: procedure c is in train and eval"),
        ("error", 1, "splits.json: part test names z, which is not in the table procedures"),
        ("note", 1, "splits.json: procedure d is in no part"),
    ]
    data = split_set(patients, {"train": ["a", "c"], "eval": ["b", "d"]})
    (finding,) = findings_of(data, *SPLITS)
    assert finding.what == "splits.json: patient p is in train and eval"
    data = split_set(patients, {"train": ["a", "b", "a", "c", "a"], "eval": ["d"]})
    (finding,) = findings_of(data, *SPLITS)
    assert (finding.severity, finding.count) == ("error", 1)
    assert finding.what == "splits.json: part train names a more than once"
    # Patients with the same name in two data sets are two patients.
    rows = [procedure_row("a", patient="1"), procedure_row("b", patient="1", dataset="sun")]
    assert findings_of(data_set([], [], rows, {"train": ["a"], "eval": ["b"]}), *SPLITS) == []


@given(
    st.lists(st.sampled_from("pqr"), min_size=4, max_size=4),
    st.dictionaries(
        st.sampled_from(["train", "eval", "test"]),
        st.lists(st.sampled_from("abcdz"), unique=True, max_size=5),
    ),
)
def test_leakage_between_parts_equals_a_naive_loop(
    groups: list[str], splits: dict[str, list[str]]
) -> None:
    patients = dict(zip("abcd", groups, strict=True))
    parts_of = {name: {p for p, names in splits.items() if name in names} for name in "abcdz"}
    in_two_parts = {name for name, parts in parts_of.items() if len(parts) > 1}
    leaks = set()
    for first in set(patients) - in_two_parts:
        for second in set(patients) - in_two_parts - {first}:
            if patients[first] == patients[second] and len(parts_of[first] | parts_of[second]) > 1:
                leaks.add(patients[first])
    unsplit = sum(not parts_of[n] for n in patients) if splits else 0
    naive = dict(
        zip(SPLITS, (len(in_two_parts), len(leaks), len(parts_of["z"]), unsplit, 0), strict=True)
    )
    counted = counts(findings_of(split_set(patients, splits), *SPLITS))
    assert counted == {check: count for check, count in naive.items() if count}


def test_overlapping_data_sets_and_licences_are_reported() -> None:
    rows = [procedure_row("a"), procedure_row("b", dataset="Colon-Bench")]
    overlapping, unknown = findings_of(
        data_set([], [], rows), "overlapping data sets", "licence not known"
    )
    assert overlapping.severity == "warning"
    assert "overlap: Colon-Bench is made of REAL-Colon's videos" in overlapping.what
    assert unknown.what == "Colon-Bench: its terms are not known here"
    simulated = data_set([], [], [procedure_row("a", dataset="simulated tiny 0")])
    assert findings_of(simulated, "licence not known", "licence") == []
    (spelt,) = findings_of(
        data_set([], [], [procedure_row("a", dataset="REAL_Colon")]), "licence not known", "licence"
    )
    assert spelt.what == f"REAL_Colon: {'; '.join(LICENCES['real-colon'][:2])}"


@settings(max_examples=5)
@given(data_sets())
def test_imported_sets_have_no_errors_and_findings_are_sorted_by_severity(data: DataSet) -> None:
    findings = diagnose(data, images=True)
    assert "error" not in {f.severity for f in findings}
    ranks = [SEVERITIES.index(f.severity) for f in findings]
    assert ranks == sorted(ranks)
    assert all(f.count > 0 and f.what and f.hint for f in findings)


# Images: which exist, and which decode.


def png(width: int = WIDTH) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, HEIGHT), (9, 99, 200)).save(buffer, "png")
    return buffer.getvalue()


def with_images(source: Path | str, images: list[str | None]) -> DataSet:
    rows = [("a", k, 1, 1, 20, 20, None) for k in range(len(images))]
    data = data_set(rows, [], [procedure_row("a", len(images), source=str(source))])
    boxes = data.detections.with_columns(image=pl.Series(images, dtype=pl.String))
    return DataSet.of(boxes, data.procedures, data.polyps)


def image_findings(
    data: DataSet, folder: Path = Path(), deep: bool = False
) -> list[tuple[str, int]]:
    checks = ("missing image", "box without image", "unreadable image", "image of another size")
    findings = diagnose(data, images=True, deep=deep, folder=folder)
    return [(f.check, f.count) for f in findings if f.check in checks]


def test_each_missing_image_is_counted_once(tmp_path: Path) -> None:
    data = with_images(tmp_path, ["a/b/0.png", "a/b/1.png", "a/b/1.png", "2.png"])
    assert image_findings(data) == [("missing image", 3)]
    finding = diagnose(data, images=True)[0]
    assert finding.what == f"procedure a, frame 0: no file a/b/0.png in {tmp_path}"
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/b/0.png", "a/b/1.png", "2.png"):
        (tmp_path / name).write_bytes(png())
    assert image_findings(data) == []
    relative = with_images(tmp_path.name, ["2.png"])  # a source relative to the data folder
    assert image_findings(relative, tmp_path.parent) == []
    assert image_findings(relative, tmp_path) == [("missing image", 1)]
    none = with_images(tmp_path, [None, None])
    assert image_findings(none) == [("box without image", 2)]
    simulated = none.procedures.with_columns(dataset=pl.lit("simulated small 0"))
    assert image_findings(DataSet.of(none.detections, simulated, none.polyps)) == []


def test_missing_archives_videos_and_members_are_counted(tmp_path: Path) -> None:
    names: list[str | None] = ["a/p.zip!/x/0.jpg", "a/p.zip!/x/1.jpg", "b.tar.gz!/2.jpg", "c.mp4#3"]
    data = with_images(tmp_path, [*names, "d.m3u#4"])
    (tmp_path / "d.m3u").write_text("c.mp4\n")
    for deep in (False, True):
        missing, *others = image_findings(data, deep=deep)
        assert missing == ("missing image", 5)
        assert others == ([("unreadable image", 1)] if deep else [])  # the playlist itself exists
    pack(tmp_path / "a" / "p.zip", {"x/0.jpg": b""})
    (tmp_path / "b.tar.gz").touch()
    (tmp_path / "c.mp4").touch()
    assert image_findings(data) == [("missing image", 1)]
    assert "no file a/p.zip!/x/1.jpg" in diagnose(data, images=True)[0].what


CONTENTS = {"0.png": png(), "1.png": b"half", "2.png": png(32), "3.png": png()}
EXPECTED = [("unreadable image", 1), ("image of another size", 1)]


def test_a_sample_or_all_of_the_images_are_opened(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name, content in CONTENTS.items():
        (tmp_path / "images" / name).write_bytes(content)
    data = with_images("images", [*CONTENTS, "absent.png"])
    steps: list[tuple[int, int]] = []
    for deep in (False, True):
        assert image_findings(data, tmp_path, deep) == [("missing image", 1), *EXPECTED]
        findings = diagnose(
            data, images=True, deep=deep, folder=tmp_path, progress=lambda *s: steps.append(s)
        )
        assert any("frame 1: 1.png does not decode" in f.what for f in findings)
        assert any("2.png is 32 x 48, the procedure 64 x 48" in f.what for f in findings)
    assert steps[-1] == (4, 5)
    assert decode_size(png()) == (WIDTH, HEIGHT, False)
    assert isinstance(decode_size(b"half"), str)


def test_images_that_a_tag_turns_are_reported(tmp_path: Path) -> None:
    for name, orientation in (("0.jpg", 1), ("1.jpg", 6)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / name, exif=exif)
    findings = diagnose(with_images(tmp_path, ["0.jpg", "1.jpg"]), images=True)
    (turned,) = [finding for finding in findings if finding.check == "image with a rotation tag"]
    assert (turned.severity, turned.count) == ("warning", 1)
    assert "1.jpg has an EXIF tag" in turned.what


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_are_opened_only_with_deep(tmp_path: Path, kind: str) -> None:
    path = pack(tmp_path / f"p.{kind}", {f"p/{name}": data for name, data in CONTENTS.items()})
    data = with_images(tmp_path, [*(f"p.{kind}!/{name}" for name in CONTENTS), f"p.{kind}!/x.png"])
    opened = {check: n for check, n in image_findings(data, deep=True) if check != "missing image"}
    assert opened == {"unreadable image": 2, "image of another size": 1}
    assert not dict(image_findings(data)).keys() - {"missing image"}
    path.write_bytes(path.read_bytes()[:-40])
    assert "unreadable image" in dict(image_findings(data, deep=True))


def test_missing_frames_of_videos_are_reported(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", 4)
    data = with_images(tmp_path, [f"a.mp4#{k}" for k in range(5)])
    assert image_findings(data, deep=True) == [("unreadable image", 1)]
    assert "a.mp4#4 does not decode: the video has 4 frames" in (
        diagnose(data, images=True, deep=True)[0].what
    )
