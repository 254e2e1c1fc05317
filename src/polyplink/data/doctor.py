"""The doctor: find errors and irregularities of a data set before computing on it.

Every check turns a table of offending rows into one finding. Sources of the licences: figshare
22202866 (REAL-Colon: its README says CC BY 4.0, the description in the release CC BY-NC-SA 4.0);
github.com/dashishi/LDPolypVideo-Benchmark; sundatabase.org; doi:10.7910/DVN/FCBUOR (PolypsSet);
figshare 28030115 (Polyp-Size).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from polyplink.data.boxes import NO_SUCH_FRAME, OUTSIDE, OVER_THE_EDGE
from polyplink.data.image_files import missing_images, open_images
from polyplink.data.merged import overlaps
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import SIMULATED

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # worst first

TINY_PIXELS = 8.0  # below this a crop shows no polyp
_BOX = "procedure {procedure_id}, frame {frame}: box ({x:g}, {y:g}, {w:g}, {h:g})"
_IN_FRAME = "procedure {procedure_id}, frame {frame}"
_ONE_PART = "leave it in one part: results on the other would be flattered"

# Data set -> its licence, how to get it, and what to observe.
LICENCES: Mapping[str, tuple[str, str, str]] = {
    "real-colon": (
        "CC BY 4.0 in its README, CC BY-NC-SA 4.0 in its description",
        "open download",
        "name the authors; until they say which holds, do not use it commercially",
    ),
    "ldpolyp": ("none stated; for research", "open download", "ask the authors before other use"),
    "sun": (
        "non-commercial research and education, no redistribution",
        "on request by e-mail",
        "pass on no part of it, images or tables, processed or not",
    ),
    "polypsset": ("CC0 1.0", "open download", "none needed"),
    "polyp-size": ("CC BY 4.0", "open download", "name the authors"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd in a data set.

    Attributes:
        severity: "error" gives wrong results or stops a later stage; "warning" may; "note" is
            good to know.
        check: Short name of the check.
        what: What is wrong, with the first place.
        count: How often.
        mend: What to do about it.
    """

    severity: Severity
    check: str
    what: str
    count: int
    mend: str


# Offending rows, severity, check, text with `{column}` of the first row, mend.
_Check = tuple[pl.DataFrame, Severity, str, str, str]


def diagnose(
    data: DataSet,
    *,
    images: bool,
    deep: bool = False,
    folder: Path = Path(),
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Run every check on a data set.

    Args:
        data: The data set.
        images: Check the images too: folders are listed, and a sample is opened.
        deep: Open all images, those in archives and videos included.
        folder: The data folder, which relative sources are relative to.
        progress: Callback with the number of images opened and to open.

    Returns:
        The findings, worst first; empty if nothing is odd.
    """
    checks = [_splits, _overlaps, _boxes, _identities, _names, _contents, _gaps, _licences]
    found = [check for checks_of in checks for check in checks_of(data)]
    if images or deep:
        found += _missing_images(data, folder)
        found += _opened_images(open_images(data, folder, deep=deep, progress=progress))
    findings = [
        Finding(severity, check, what.format(**rows.row(0, named=True)), rows.height, mend)
        for rows, severity, check, what, mend in found
        if rows.height
    ]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _splits(data: DataSet) -> Iterator[_Check]:
    """Leakage between the parts of the splits."""
    members = pl.DataFrame(
        [(part, name) for part, names in data.splits.items() for name in names],
        schema={"part": pl.String, "procedure_id": pl.String},
        orient="row",
    )
    # Two data sets may give a patient the same name.
    patients = data.procedures.select("procedure_id", "dataset", "patient")
    known = members.join(patients, on="procedure_id", how="inner", maintain_order="left")

    def in_several_parts(rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        parts = rows.group_by(group, maintain_order=True).agg(
            pl.col("part").unique(maintain_order=True)
        )
        several = parts.filter(pl.col("part").list.len() > 1)
        return several.select(*group, parts=pl.col("part").list.join(" and "))

    twice = in_several_parts(members, ["procedure_id"])
    # A procedure in two parts is reported once, not again as its patient.
    single = known.join(twice, on="procedure_id", how="anti", maintain_order="left")
    unsplit = patients.join(members, on="procedure_id", how="anti", maintain_order="left")
    yield (
        twice,
        "error",
        "procedure in two parts",
        "splits.json: procedure {procedure_id} is in {parts}",
        _ONE_PART,
    )
    yield (
        in_several_parts(single, ["dataset", "patient"]),
        "error",
        "patient in two parts",
        "splits.json: patient {patient} is in {parts}",
        _ONE_PART,
    )
    yield (
        members.join(patients, on="procedure_id", how="anti", maintain_order="left"),
        "error",
        "unknown procedure in a part",
        "splits.json: part {part} names {procedure_id}, which is in no row of procedures",
        "correct the name, or take it out of the part",
    )
    yield (
        unsplit if data.splits else unsplit.clear(),
        "note",
        "procedure in no part",
        "splits.json: procedure {procedure_id} is in no part",
        "add it to a part if it is to be used",
    )


def _overlaps(data: DataSet) -> Iterator[_Check]:
    """Sets that are known to hold the same videos."""
    yield (
        pl.DataFrame({"what": overlaps(data)}, schema={"what": pl.String}),
        "warning",
        "overlapping data sets",
        "{what}",
        "keep them in one part: the same video goes by two names, which no check can match",
    )


def _boxes(data: DataSet) -> Iterator[_Check]:
    """Boxes outside their frame, and tiny boxes."""
    size = data.procedures.select("procedure_id", "n_frames", "width", "height")
    boxes = data.detections.join(size, on="procedure_id", how="left", maintain_order="left")
    boxes = boxes.with_columns(right=pl.col("x") + pl.col("w"), bottom=pl.col("y") + pl.col("h"))
    yield (
        boxes.filter(NO_SUCH_FRAME),
        "error",
        "frame number",
        "procedure {procedure_id}: a box in frame {frame} of {n_frames}",
        "correct n_frames, or number the frames from 0",
    )
    yield (
        boxes.filter(OUTSIDE),
        "error",
        "box outside",
        f"{_BOX} is wholly outside the image of {{width}} x {{height}}",
        "correct the box, or the procedure's width and height",
    )
    yield (
        boxes.filter(OVER_THE_EDGE),
        "warning",
        "box over the edge",
        f"{_BOX} reaches beyond the image of {{width}} x {{height}}",
        "clip the box; check the procedure's width and height",
    )
    yield (
        boxes.filter(pl.min_horizontal("w", "h") < TINY_PIXELS),
        "warning",
        "tiny box",
        f"{_BOX} has a side below {TINY_PIXELS:g} pixels",
        "leave it out, unless the images are very small",
    )


def _identities(data: DataSet) -> Iterator[_Check]:
    """The polyp ids of boxes."""
    owner = data.polyps.select("polyp_id", owner="procedure_id")
    named = data.detections.filter(pl.col("polyp_id").is_not_null())
    boxes = named.join(owner, on="polyp_id", how="left", maintain_order="left")
    yield (
        boxes.filter(pl.col("owner").is_null()),
        "error",
        "unknown polyp",
        f"{_IN_FRAME}: a box of {{polyp_id}}, which is in no row of polyps",
        "add the polyp to the table, or leave its polyp_id empty",
    )
    yield (
        boxes.filter(pl.col("owner") != pl.col("procedure_id")),
        "error",
        "polyp of another procedure",
        f"{_IN_FRAME}: a box of {{polyp_id}}, which belongs to {{owner}}",
        "give every procedure its own polyp ids",
    )
    yield (
        named.filter(~pl.struct("procedure_id", "frame", "polyp_id").is_first_distinct()),
        "warning",
        "polyp twice in a frame",
        f"{_IN_FRAME}: more than one box of {{polyp_id}}",
        "leave one box, or give the second polyp its own id",
    )
    yield (
        data.detections.filter(pl.col("polyp_id").is_null()),
        "note",
        "box without polyp",
        f"{_IN_FRAME}: a box without a polyp id",
        "none needed for counting; evaluation and supervised training need the ids",
    )


def _names(data: DataSet) -> Iterator[_Check]:
    """Names so similar that they may denote the same thing, and duplicate boxes."""
    columns = (
        ("procedures", "procedure_id", data.procedures),
        ("procedures", "patient", data.procedures),
        ("polyps", "polyp_id", data.polyps),
        ("polyps", "histology_class", data.polyps),
        ("polyps", "location", data.polyps),
    )
    for table, column, rows in columns:
        yield (
            near_names(rows[column].drop_nulls().unique(maintain_order=True)),
            "warning",
            f"near names of {column}",
            f"table {table}, column {column}: {{first}} and {{second}} are almost one name",
            "write both in one way if they mean the same",
        )
    box = ["procedure_id", "frame", "x", "y", "w", "h", "polyp_id"]
    yield (
        data.detections.filter(~pl.struct(box).is_first_distinct()),
        "warning",
        "box twice",
        f"{_BOX} occurs twice",
        "leave one of them",
    )


def near_names(names: Iterable[str]) -> pl.DataFrame:
    """Pairs of names that differ in case, blanks, `-` and `_`, or leading zeros only.

    Returns:
        Columns first and second.
    """
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        joined = re.sub(r"[\s_-]+", "-", name.strip().casefold())
        plain = re.sub(r"(?<![0-9.])0+(?=[0-9])", "", joined)
        before = first.setdefault(plain, name)
        if before != name:
            pairs.append((before, name))
    return pl.DataFrame(pairs, schema={"first": pl.String, "second": pl.String}, orient="row")


def _contents(data: DataSet) -> Iterator[_Check]:
    """Polyps without a box; procedures without a box, without a polyp, and with one only."""
    boxes, polyps = data.detections, data.polyps
    count = polyps.group_by("procedure_id").len("polyps")
    procedures = data.procedures.join(count, on="procedure_id", how="left", maintain_order="left")
    procedures = procedures.with_columns(pl.col("polyps").fill_null(0))
    yield (
        polyps.join(boxes, on=["procedure_id", "polyp_id"], how="anti", maintain_order="left"),
        "warning",
        "polyp without box",
        "procedure {procedure_id}: no box of {polyp_id}",
        "annotate it, or leave its row out: it is counted but cannot be found",
    )
    yield (
        procedures.join(boxes, on="procedure_id", how="anti", maintain_order="left"),
        "note",
        "procedure without box",
        "procedure {procedure_id} has no box and {polyps} polyps",
        "none needed where no polyp was seen",
    )
    yield (
        procedures.filter(pl.col("polyps") == 0),
        "note",
        "procedure without polyp",
        "procedure {procedure_id} has no polyp",
        "none needed: it is left out of fragmentation rates",
    )
    yield (
        procedures.filter(pl.col("polyps") == 1),
        "note",
        "procedure with one polyp",
        "procedure {procedure_id} has one polyp",
        "none needed: it is left out of false positive rates, which need two",
    )


def _gaps(data: DataSet) -> Iterator[_Check]:
    """How often the boxes of one polyp skip frames: tracklets are cut there."""
    polyp = ["procedure_id", "polyp_id"]
    seen = data.detections.drop_nulls("polyp_id").unique([*polyp, "frame"])
    step = pl.col("frame").diff().over(polyp)
    steps = seen.sort(*polyp, "frame").with_columns(step=step).drop_nulls("step")
    usual = steps.group_by("procedure_id", maintain_order=True).agg(pl.col("step").median())
    yield (
        usual.filter(pl.col("step") > 1),
        "warning",
        "frames skipped",
        "procedure {procedure_id}: boxes of a polyp are usually {step:g} frames apart",
        "number the annotated frames without gaps, or every box becomes its own tracklet",
    )
    yield (
        steps.filter(pl.col("step") > 1).sort("step", descending=True, maintain_order=True),
        "note",
        "gap",
        "procedure {procedure_id}: {polyp_id} is away for {step} frames before frame {frame}",
        "none needed: a tracklet ends at a gap",
    )


def _licences(data: DataSet) -> Iterator[_Check]:
    """Licence and form of access of every data set that procedures are from."""
    procedures = data.procedures.select("dataset")
    for name in procedures["dataset"].unique(maintain_order=True):
        if name in LICENCES:
            terms, access, advice = LICENCES[name]
            mine = procedures.filter(pl.col("dataset") == name)
            what = f"{{dataset}}: {terms}; {access}"
            yield mine, "note", "licence", what, advice
    simulated = pl.col("dataset").str.starts_with(SIMULATED)
    unknown = ~pl.col("dataset").is_in(list(LICENCES)) & ~simulated
    yield (
        procedures.filter(unknown).unique(maintain_order=True),
        "note",
        "licence not known",
        "{dataset}: its terms are not known here",
        "look them up before results or weights are passed on",
    )


def _missing_images(data: DataSet, folder: Path) -> Iterator[_Check]:
    """Images that do not exist, and boxes that name none (simulated ones are rendered)."""
    yield (
        missing_images(data, folder),
        "error",
        "missing image",
        "procedure {procedure_id}, frame {frame}: no file {image} in {source}",
        "restore the file, or import without images",
    )
    dataset = data.procedures.select("procedure_id", "dataset")
    bare = data.detections.filter(pl.col("image").is_null())
    bare = bare.join(dataset, on="procedure_id", how="left", maintain_order="left")
    yield (
        bare.filter(~pl.col("dataset").str.starts_with(SIMULATED)),
        "warning",
        "box without image",
        "procedure {procedure_id}, frame {frame}: a box that names no image",
        "import with the frames in place; crops cannot be made without",
    )


def _opened_images(opened: pl.DataFrame) -> Iterator[_Check]:
    """Images that do not decode, or are not of their procedure's size."""
    other = (pl.col("is_width") != pl.col("width")) | (pl.col("is_height") != pl.col("height"))
    of = f" (of {opened.height} opened)"
    yield (
        opened.filter(pl.col("why").is_not_null()),
        "error",
        "unreadable image",
        f"procedure {{procedure_id}}, frame {{frame}}: {{image}} does not decode: {{why}}{of}",
        "restore the file; `prepare` leaves such frames out and cuts their tracklets",
    )
    yield (
        opened.filter(other),
        "error",
        "image of another size",
        "procedure {procedure_id}, frame {frame}: {image} is {is_width} x {is_height}, the "
        f"procedure {{width}} x {{height}}{of}",
        "correct width and height of the procedure; boxes must be in pixels of the image",
    )
