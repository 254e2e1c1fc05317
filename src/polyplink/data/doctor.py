"""The doctor: check a data set for errors and irregularities before computing on it.

Every check selects a table of offending rows, which becomes one finding. Sources of the licences:
figshare 22202866 (REAL-Colon: its README says CC BY 4.0, the description in the release CC BY-NC-SA
4.0); github.com/dashishi/LDPolypVideo-Benchmark; sundatabase.org; doi:10.7910/DVN/FCBUOR
(PolypsSet); figshare 28030115 (Polyp-Size).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from polyplink.core.results import StageProgress, silent_stage
from polyplink.data.boxes import NO_SUCH_FRAME, OUTSIDE, OVER_THE_EDGE
from polyplink.data.image_files import missing_images, open_images
from polyplink.data.merge import overlaps
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import RECORDINGS, SIMULATED, plain_name

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # worst first

TINY_PIXELS = 8.0  # below this a crop shows no polyp
FEWEST_ALIKE = 5  # so many equal boxes are no coincidence
_BOX = "procedure {procedure_id}, frame {frame}: box ({x:g}, {y:g}, {w:g}, {h:g})"
_IN_FRAME = "procedure {procedure_id}, frame {frame}"
_ONE_PART = "leave it in one part: results on the other would be too good"

# Data set -> its licence, how to get it, and how to comply.
LICENCES: Mapping[str, tuple[str, str, str]] = {
    "real-colon": (
        "CC BY 4.0 in its README, CC BY-NC-SA 4.0 in its description",
        "open download",
        "credit the authors; until they say which licence holds, do not use it commercially",
    ),
    "ldpolyp": ("none stated; for research", "open download", "ask the authors before other use"),
    "sun": (
        "non-commercial research and education, no redistribution",
        "on request by e-mail",
        "do not pass on any part of it, images or tables, processed or not",
    ),
    "polypsset": ("CC0 1.0", "open download", "none needed"),
    "polyp-size": ("CC BY 4.0", "open download", "credit the authors"),
}


@dataclass(frozen=True)
class Finding:
    """An error or irregularity of a data set.

    Attributes:
        severity: "error" causes wrong results or stops a later stage; "warning" may do so; "note"
            is for information.
        check: Short name of the check.
        what: Description, with the first place.
        count: Number of occurrences.
        hint: How to fix it.
    """

    severity: Severity
    check: str
    what: str
    count: int
    hint: str


_POLYP = ["procedure_id", "polyp_id"]  # columns that identify a polyp


class _Check(NamedTuple):
    """A check of a data set; it finds something if there are offending rows.

    Attributes:
        severity: See `Finding`.
        name: Short name of the check.
        rows: The offending rows.
        text: What is wrong, with `{column}` for values of the first row.
        hint: How to fix it.
    """

    severity: Severity
    name: str
    rows: pl.DataFrame
    text: str
    hint: str


def diagnose(
    data: DataSet,
    *,
    images: bool,
    deep: bool = False,
    folder: Path = Path(),
    progress: StageProgress = silent_stage,
) -> list[Finding]:
    """Run every check on a data set.

    Args:
        data: The data set.
        images: Check the images too: folders are listed, and a sample is opened.
        deep: Open all images, including those in archives and videos.
        folder: The data folder, which relative sources are relative to.
        progress: Callback with the number of images opened and to open.

    Returns:
        The findings, worst first.
    """
    checks = [
        *_check_splits(data),
        *_check_boxes(data),
        *_check_names(data),
        _check_repeated_procedures(data),
        *_check_polyps_and_procedures(data),
        *_check_gaps(data),
        *_licences(data),
    ]
    if images or deep:
        opened = open_images(data, folder, deep=deep, progress=progress)
        checks += _check_images(data, missing_images(data, folder), opened)
    findings = []
    for severity, name, rows, text, hint in checks:
        if rows.height:
            what = text.format(**rows.row(0, named=True))
            findings.append(Finding(severity, name, what, rows.height, hint))
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _check_splits(data: DataSet) -> list[_Check]:
    """Leakage between parts of the splits; data sets known to contain the same videos."""
    rows: list[tuple[str, str]] = []
    for part, names in data.splits.items():
        rows += [(part, name) for name in names]
    members = pl.DataFrame(
        rows, schema={"part": pl.String, "procedure_id": pl.String}, orient="row"
    )
    # Two data sets may give a patient the same name.
    patients = data.procedures.select("procedure_id", "dataset", "patient")
    members_with_patient = members.join(
        patients, on="procedure_id", how="inner", maintain_order="left"
    )

    def in_several_parts(rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        """Values of the columns `group` that occur in more than one part, with the parts."""
        parts = rows.group_by(group, maintain_order=True).agg(
            pl.col("part").unique(maintain_order=True)
        )
        in_several = parts.filter(pl.col("part").list.len() > 1)
        return in_several.select(*group, parts=pl.col("part").list.join(" and "))

    in_two_parts = in_several_parts(members, ["procedure_id"])
    # A procedure in two parts is reported once, not again as its patient.
    in_one_part = members_with_patient.join(
        in_two_parts, on="procedure_id", how="anti", maintain_order="left"
    )
    unsplit = patients.join(members, on="procedure_id", how="anti", maintain_order="left")
    return [
        _Check(
            "error",
            "procedure in two parts",
            in_two_parts,
            "splits.json: procedure {procedure_id} is in {parts}",
            _ONE_PART,
        ),
        _Check(
            "error",
            "patient in two parts",
            in_several_parts(in_one_part, ["dataset", "patient"]),
            "splits.json: patient {patient} is in {parts}",
            _ONE_PART,
        ),
        _Check(
            "error",
            "procedure twice in a part",
            members.filter(~members.is_unique()).unique(maintain_order=True),
            "splits.json: part {part} names {procedure_id} more than once",
            "name it once",
        ),
        _Check(
            "error",
            "unknown procedure in a part",
            members.join(patients, on="procedure_id", how="anti", maintain_order="left"),
            "splits.json: part {part} names {procedure_id}, which is not in the table procedures",
            "correct the name, or remove it from the part",
        ),
        _Check(
            "note",
            "procedure in no part",
            unsplit if data.splits else unsplit.clear(),
            "splits.json: procedure {procedure_id} is in no part",
            "add it to a part if it is to be used",
        ),
        _Check(
            "warning",
            "overlapping data sets",
            pl.DataFrame({"what": overlaps(data)}, schema={"what": pl.String}),
            "{what}",
            "keep them in one part: the same video has two names, which no check can match",
        ),
    ]


def _check_boxes(data: DataSet) -> list[_Check]:
    """Position and polyp of boxes."""
    size = data.procedures.select("procedure_id", "n_frames", "width", "height")
    owner = data.polyps.select("polyp_id", owner="procedure_id")
    boxes = data.detections.join(size, on="procedure_id", how="left", maintain_order="left")
    boxes = boxes.join(owner, on="polyp_id", how="left", maintain_order="left")
    boxes = boxes.with_columns(right=pl.col("x") + pl.col("w"), bottom=pl.col("y") + pl.col("h"))
    of_polyps = boxes.filter(pl.col("polyp_id").is_not_null())
    return [
        _Check(
            "error",
            "frame number",
            boxes.filter(NO_SUCH_FRAME),
            "procedure {procedure_id}: a box in frame {frame} of {n_frames}",
            "correct n_frames, or number the frames from 0",
        ),
        _Check(
            "error",
            "box outside",
            boxes.filter(OUTSIDE),
            f"{_BOX} is wholly outside the image of {{width}} x {{height}}",
            "correct the box, or the procedure's width and height",
        ),
        _Check(
            "warning",
            "box over the edge",
            boxes.filter(OVER_THE_EDGE),
            f"{_BOX} reaches beyond the image of {{width}} x {{height}}",
            "clip the box; check the procedure's width and height",
        ),
        _Check(
            "warning",
            "tiny box",
            boxes.filter(pl.min_horizontal("w", "h") < TINY_PIXELS),
            f"{_BOX} has a side below {TINY_PIXELS:g} pixels",
            "leave it out, unless the images are very small",
        ),
        _Check(
            "error",
            "unknown polyp",
            of_polyps.filter(pl.col("owner").is_null()),
            f"{_IN_FRAME}: a box of {{polyp_id}}, which is not in the table polyps",
            "add the polyp to the table, or leave its polyp_id empty",
        ),
        _Check(
            "error",
            "polyp of another procedure",
            of_polyps.filter(pl.col("owner") != pl.col("procedure_id")),
            f"{_IN_FRAME}: a box of {{polyp_id}}, which belongs to {{owner}}",
            "give every procedure its own polyp ids",
        ),
        _Check(
            "warning",
            "polyp twice in a frame",
            of_polyps.filter(~pl.struct("procedure_id", "frame", "polyp_id").is_first_distinct()),
            f"{_IN_FRAME}: more than one box of {{polyp_id}}",
            "leave one box, or give the second polyp its own id",
        ),
        _Check(
            "note",
            "box without polyp",
            boxes.filter(pl.col("polyp_id").is_null()),
            f"{_IN_FRAME}: a box without a polyp id",
            "none needed for counting; evaluation and supervised training need the ids",
        ),
    ]


def near_names(names: Iterable[str]) -> pl.DataFrame:
    """Pairs of names that differ in case, blanks, `-` and `_`, or leading zeros only.

    Returns:
        Columns first and second.
    """
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        joined = re.sub(r"[\s_-]+", "-", name.strip().casefold())
        spelling = re.sub(r"(?<![0-9.])0+(?=[0-9])", "", joined)
        first_name = first.setdefault(spelling, name)
        if first_name != name:
            pairs.append((first_name, name))
    return pl.DataFrame(pairs, schema={"first": pl.String, "second": pl.String}, orient="row")


def _check_names(data: DataSet) -> list[_Check]:
    """Names of one column that differ only in spelling."""
    columns = {"procedure_id": "procedures", "patient": "procedures"}
    columns |= dict.fromkeys(("polyp_id", "histology_class", "location"), "polyps")
    return [
        _Check(
            "warning",
            f"near names of {column}",
            near_names(getattr(data, table)[column].drop_nulls().unique(maintain_order=True)),
            f"table {table}, column {column}: {{first}} and {{second}} are almost the same name",
            "use one spelling if they mean the same",
        )
        for column, table in columns.items()
    ]


def _check_repeated_procedures(data: DataSet) -> _Check:
    """Procedures with the boxes of another one: `FEWEST_ALIKE` or more, after the same steps."""
    sides = ["frame", "x", "y", "w", "h"]
    step = pl.col("frame") - pl.col("frame").min().over("procedure_id")
    boxes = data.detections.select("procedure_id", *sides).with_columns(frame=step)
    first: dict[bytes, str] = {}
    pairs = []
    for (name,), rows in boxes.group_by("procedure_id", maintain_order=True):
        if rows.height >= FEWEST_ALIKE:
            content = hashlib.blake2b(rows.select(sides).sort(sides).to_numpy().tobytes()).digest()
            first_name = first.setdefault(content, str(name))
            if first_name != name:
                pairs.append((first_name, name))
    return _Check(
        "warning",
        "procedure twice",
        pl.DataFrame(pairs, schema={"first": pl.String, "second": pl.String}, orient="row"),
        "procedures {first} and {second} have the same boxes",
        "leave one of them: figures and intervals take them as two, also in two parts",
    )


def _check_polyps_and_procedures(data: DataSet) -> list[_Check]:
    """Boxes that occur twice; polyps without boxes; procedures without boxes or of few polyps."""
    boxes, polyps = data.detections, data.polyps
    count = polyps.group_by("procedure_id").len("polyps")
    procedures = data.procedures.join(count, on="procedure_id", how="left", maintain_order="left")
    procedures = procedures.with_columns(pl.col("polyps").fill_null(0))
    unnamed = boxes.filter(pl.col("polyp_id").is_null())
    annotated = procedures.join(unnamed, on="procedure_id", how="anti", maintain_order="left")
    box = ["procedure_id", "frame", "x", "y", "w", "h", "polyp_id"]
    return [
        _Check(
            "warning",
            "box twice",
            boxes.filter(~pl.struct(box).is_first_distinct()),
            f"{_BOX} occurs twice",
            "leave one of them",
        ),
        _Check(
            "warning",
            "polyp without box",
            polyps.join(boxes, on=_POLYP, how="anti", maintain_order="left"),
            "procedure {procedure_id}: no box of {polyp_id}",
            "annotate it, or leave its row out: it is counted but cannot be detected",
        ),
        _Check(
            "note",
            "procedure without box",
            procedures.join(boxes, on="procedure_id", how="anti", maintain_order="left"),
            "procedure {procedure_id} has no box; its polyps: {polyps}",
            "none needed if no polyp was seen",
        ),
        _Check(
            "note",
            "procedure without polyp",
            annotated.filter(pl.col("polyps") == 0),
            "procedure {procedure_id} has no polyp",
            "none needed: it is left out of fragmentation rates",
        ),
        _Check(
            "note",
            "procedure with one polyp",
            procedures.filter(pl.col("polyps") == 1),
            "procedure {procedure_id} has one polyp",
            "none needed: it is left out of false positive rates, which need two",
        ),
    ]


def _check_gaps(data: DataSet) -> list[_Check]:
    """Frames between boxes of a polyp."""
    boxes = data.detections.drop_nulls("polyp_id").unique([*_POLYP, "frame"])
    frame = pl.col("frame")
    before = frame.shift().over(_POLYP)
    steps = boxes.sort(*_POLYP, "frame").with_columns(before=before, step=frame - before)
    steps = steps.drop_nulls("step")
    usual = steps.group_by("procedure_id", maintain_order=True).agg(pl.col("step").median())
    return [
        _Check(
            "warning",
            "frames skipped",
            usual.filter(pl.col("step") > 1),
            "procedure {procedure_id}: boxes of a polyp are usually {step:g} frames apart",
            "give --max-gap, or number them without gaps: every box becomes its own tracklet",
        ),
        _Check(  # a tracklet is cut there
            "note",
            "gap",
            steps.filter(pl.col("step") > 1).sort("step", descending=True, maintain_order=True),
            "procedure {procedure_id}: {polyp_id} is absent between frames {before} and {frame}",
            "none needed: a tracklet ends at a gap",
        ),
    ]


def _licences(data: DataSet) -> Iterator[_Check]:
    """Licence and access of the data sets of all procedures."""
    procedures = data.procedures.select("dataset")
    licences = {plain_name(name): licence for name, licence in LICENCES.items()}
    names = procedures["dataset"].unique(maintain_order=True).to_list()
    listed = [name for name in names if plain_name(name) in licences]
    for name in listed:
        terms, access, advice = licences[plain_name(name)]
        of_data_set = procedures.filter(pl.col("dataset") == name)
        text = f"{{dataset}}: {terms}; {access}"
        yield _Check("note", "licence", of_data_set, text, advice)
    no_terms = pl.col("dataset").str.starts_with(SIMULATED) | (pl.col("dataset") == RECORDINGS)
    unknown = ~pl.col("dataset").is_in(listed) & ~no_terms
    yield _Check(
        "note",
        "licence not known",
        procedures.filter(unknown).unique(maintain_order=True),
        "{dataset}: its terms are not known here",
        "look them up before passing on results or weights",
    )


def _check_images(data: DataSet, missing: pl.DataFrame, opened: pl.DataFrame) -> list[_Check]:
    """Images that are missing, do not decode, or have another size; boxes without an image."""
    dataset = data.procedures.select("procedure_id", "dataset")
    without_image = data.detections.filter(pl.col("image").is_null())
    without_image = without_image.join(
        dataset, on="procedure_id", how="left", maintain_order="left"
    )
    other_size = (pl.col("is_width") != pl.col("width")) | (pl.col("is_height") != pl.col("height"))
    of_opened = f" (of {opened.height} opened)"
    return [
        _Check(
            "error",
            "missing image",
            missing,
            f"{_IN_FRAME}: no file {{image}} in {{source}}",
            "restore the file (of a playlist: all its files), or import without images",
        ),
        _Check(  # simulated ones are rendered
            "warning",
            "box without image",
            without_image.filter(~pl.col("dataset").str.starts_with(SIMULATED)),
            f"{_IN_FRAME}: a box without an image",
            "import with the frames in place; crops cannot be made without them",
        ),
        _Check(
            "error",
            "unreadable image",
            opened.filter(pl.col("why").is_not_null()),
            f"{_IN_FRAME}: {{image}} does not decode: {{why}}{of_opened}",
            "restore the file; `prepare` leaves such frames out and splits tracklets there",
        ),
        _Check(
            "error",
            "image of another size",
            opened.filter(other_size),
            f"{_IN_FRAME}: {{image}} is {{is_width}} x {{is_height}}, the procedure {{width}} x "
            f"{{height}}{of_opened}",
            "correct the procedure's width and height; boxes must be in pixels of the image",
        ),
        _Check(
            "warning",
            "image with a rotation tag",
            opened.filter("is_turned"),
            f"{_IN_FRAME}: {{image}} has an EXIF tag that turns it, which is ignored{of_opened}",
            "boxes must be in pixels of the image as stored; if they are not, turn the images",
        ),
    ]
