"""Export the results of a review: a spreadsheet, a page to print, JSON with its schema, tracks.

All files are written to the folder `reviewed` in the counted folder, again at every call.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from polyplink import __version__
from polyplink.core.artefacts import atomic_file, change_folder, to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError, escape_control, extras_installed
from polyplink.core.messages import Message
from polyplink.core.text import file_name, readable_path, short_repr
from polyplink.counting.count_part import named_procedures
from polyplink.counting.interval import Cover
from polyplink.data.files.images import data_uri
from polyplink.data.formats.coco import write_coco
from polyplink.data.formats.mot import write_mot
from polyplink.data.return_boxes import return_boxes
from polyplink.data.tables import DataSet, csv_text
from polyplink.report.formats import Texts, clock, environment
from polyplink.serve.desk import Desk
from polyplink.tracklets.box_runs import box_rows, numbers_of_boxes

FOLDER = "reviewed"
BOX_FOLDERS = ("coco", "mot", "boxes-with-tracks")  # folders in it
FORMAT = "polyplink review 6"
# By probe, the fields of a `ReviewedPolyp` that it fills.
PROBE_FIELDS = {"size": ("size_mm", "size_low_mm", "size_high_mm"), "adenoma": ("adenoma",)}
LARGE, SMALL, MOST_VIEWS = 480, 160, 6  # pixels of the best view and of others; most views
FEW = 6  # polyps of a procedure; more of them are printed smaller, in two columns


@dataclass(frozen=True)
class View:
    """A view of a polyp, in seconds and frames of the recording; the last frame is included."""

    tracklet: str
    start_s: float
    end_s: float
    start_frame: int
    end_frame: int
    probability: float | None


@dataclass(frozen=True)
class ReviewedPolyp:
    """A reviewed polyp: first and last time in view, views in temporal order, and the best view.

    `size_mm` with its 90 % interval, and `adenoma` (a probability), are null without probes.
    `added_at` is the frame in which a reviewer added the polyp, which the detector missed; such a
    polyp has no views. It is null for all others.
    """

    polyp: str
    added_at: int | None
    first_s: float
    last_s: float
    best_view: str | None
    best_s: float
    size_mm: float | None
    size_low_mm: float | None
    size_high_mm: float | None
    adenoma: float | None
    views: tuple[View, ...]


@dataclass(frozen=True)
class ReviewedProcedure:
    """A procedure after its review.

    Attributes:
        procedure: Name of the procedure.
        done: Whether a reviewer has marked the procedure as finished.
        reviewed: Whether it is marked as finished and no question is open.
        outdated: Whether an earlier review is not used because a new count has other views.
        questions: Number of questions, including answered ones.
        answered: Number of answered questions.
        reviewers: Names of the reviewers who corrected the procedure.
        corrections: Number of answers about views that apply.
        corrected: Whether such answers decide part of this count, or `done` confirms it; it then
            has no interval.
        contradictions: Number of answers that are set aside because later ones contradict them.
        polyps_before: Number of polyps before the review.
        polyps: Number of polyps after the review.
        low: Lowest number of polyps, 90 %; None without an interval.
        high: Highest number of polyps, 90 %; None without an interval.
        reviewed_polyps: The polyps after the review.
        not_polyps: Tracklets that are not counted as polyps.
    """

    __repr__ = short_repr

    procedure: str
    done: bool
    reviewed: bool
    outdated: bool
    questions: int
    answered: int
    reviewers: tuple[str, ...]
    corrections: int
    corrected: bool
    contradictions: int
    polyps_before: int
    polyps: int
    low: int | None
    high: int | None
    reviewed_polyps: tuple[ReviewedPolyp, ...]
    not_polyps: tuple[str, ...]


@dataclass(frozen=True)
class Review:
    """A reviewed count, as in review.json.

    Attributes:
        format: "polyplink review 6".
        polyplink: Version of polyplink that wrote the file.
        weights: Id of the weights of the count.
        dataset: Names of the data sets.
        simulated: Whether the data come from the simulator.
        probes: "size" and "adenoma", if the weights have these probes.
        probes_simulated: Whether the probes were fitted on simulated polyps.
        written: Time of writing, UTC, ISO 8601.
        reviewed: Whether all procedures are reviewed.
        questions: Number of questions in all procedures, including answered ones.
        answered: Number of answered questions.
        warnings: Reasons to doubt the count, in the language of the hand-off.
        basis: A sentence on the data on which the 90 % intervals were calibrated; None if no
            procedure has an interval.
        cover: Whether the count has intervals, before its correction, and the data of their
            calibration; None for counts of earlier versions.
        procedures: The procedures.
    """

    __repr__ = short_repr

    format: str
    polyplink: str
    weights: str
    dataset: str
    simulated: bool
    probes: tuple[str, ...]
    probes_simulated: bool
    written: str
    reviewed: bool
    questions: int
    answered: int
    warnings: tuple[str, ...]
    basis: str | None
    cover: Cover | None
    procedures: tuple[ReviewedProcedure, ...]


def corrected_count(desk: Desk, language: str = "en") -> Review:
    """The count of a desk under its corrections.

    Args:
        desk: The reviewed folder.
        language: Language of the warnings.
    """
    overview = desk.overview()
    procedures = [
        _reviewed_procedure(row, desk.procedure(row["index"]), before.polyps)
        for row, before in zip(overview["procedures"], desk.count.procedures, strict=True)
    ]
    cover = desk.count.cover
    basis = None if cover is None else cover.basis_of(procedure.low for procedure in procedures)
    outdated = [message.text(language) for message in outdated_messages(overview)]
    return Review(
        format=FORMAT,
        polyplink=__version__,
        weights=desk.count.weights,
        dataset=overview["title"],
        simulated=overview["simulated"],
        probes=tuple(overview["probes"]),
        probes_simulated=overview["probes_simulated"],
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        reviewed=bool(procedures) and all(procedure.reviewed for procedure in procedures),
        questions=sum(procedure.questions for procedure in procedures),
        answered=sum(procedure.answered for procedure in procedures),
        warnings=(*overview["warnings"][language], *outdated),
        basis=None if basis is None else basis.text(language),
        cover=cover,
        procedures=tuple(procedures),
    )


def outdated_messages(overview: Mapping[str, Any]) -> list[Message]:
    """The warning that reviews are not used because a new count has other views, if any are."""
    names = [row["id"] for row in overview["procedures"] if row["outdated"]]
    return [Message("outdated", named_procedures(names))] if names else []


def _reviewed_procedure(
    row: Mapping[str, Any], state: Mapping[str, Any], polyps_before: int
) -> ReviewedProcedure:
    """The count of a procedure under its corrections.

    Args:
        row: The procedure in the desk's overview.
        state: The state of the procedure.
        polyps_before: Number of polyps without corrections.
    """
    tracklets = state["tracklets"]
    polyps = []
    for group in state["groups"]:
        best = tracklets[group["best"]]
        polyps.append(
            ReviewedPolyp(
                polyp=group["name"],
                added_at=None,
                first_s=group["first_s"],
                last_s=group["last_s"],
                best_view=best["id"],
                best_s=best["start_s"],
                size_mm=group["size_mm"],
                size_low_mm=group["size_low_mm"],
                size_high_mm=group["size_high_mm"],
                adenoma=group["adenoma"],
                views=tuple(_view(tracklets[i]) for i in group["rows"]),
            )
        )
    for number, missed in enumerate(state["missed"], start=len(polyps) + 1):
        polyps.append(
            ReviewedPolyp(
                polyp=f"P{number}",
                added_at=missed["frame"],
                first_s=missed["at_s"],
                last_s=missed["at_s"],
                best_view=None,
                best_s=missed["at_s"],
                size_mm=None,
                size_low_mm=None,
                size_high_mm=None,
                adenoma=None,
                views=(),
            )
        )
    active = [
        correction
        for correction in state["log"]
        if correction["kind"] not in ("undo", "redo") and not correction["undone"]
    ]
    return ReviewedProcedure(
        procedure=state["id"],
        done=state["done"],
        reviewed=state["done"] and not row["questions"],
        outdated=state["outdated"],
        questions=row["questions"] + row["answered"],
        answered=row["answered"],
        reviewers=tuple(sorted({correction["reviewer"] for correction in active} - {""})),
        corrections=state["corrections"],
        corrected=state["corrected"],
        contradictions=len(state["conflicts"]),
        polyps_before=polyps_before,
        polyps=state["polyps"],
        low=state["low"],
        high=state["high"],
        reviewed_polyps=tuple(polyps),
        not_polyps=tuple(tracklet["id"] for tracklet in tracklets if tracklet["polyp"] is None),
    )


def _view(tracklet: Mapping[str, Any]) -> View:
    """A view of a polyp, from the desk's tracklet."""
    return View(
        tracklet=tracklet["id"],
        start_s=tracklet["start_s"],
        end_s=tracklet["end_s"],
        start_frame=tracklet["first_frame"],
        end_frame=tracklet["last_frame"],
        probability=tracklet["probability"],
    )


def hand_off(desk: Desk, language: str = "en") -> list[Path]:
    """Write the results of a review.

    Args:
        desk: The reviewed folder.
        language: Language of the page and of the spreadsheet's headings: en, de or it.

    Returns:
        The files: polyps.xlsx, polyps.csv, procedures.csv and views.csv; report.html; review.json
        and review.schema.json; coco and mot (the corrected identities); boxes-with-tracks (boxes
        as they were imported, with their tracks and corrected polyps).

    Raises:
        PolyplinkError: If the language is not supported, or xlsxwriter is not installed.
    """
    # Everything of the same corrections.
    t = Texts(language)
    with desk.unchanged():
        review = corrected_count(desk, language)
        page, data, tracks = _page(desk, review, t), identified_data(desk), _tracks(desk)

    # The table of polyps.
    measured = [field for probe in review.probes for field in PROBE_FIELDS[probe]]
    polyps = [
        (
            procedure.procedure,
            polyp.polyp,
            clock(polyp.first_s, hours_always=True),
            clock(polyp.last_s, hours_always=True),
            len(polyp.views),
            clock(polyp.best_s, hours_always=True),
            *(getattr(polyp, name) for name in measured),
            t("handoff.no" if polyp.added_at is None else "handoff.yes"),
            t("handoff.yes" if procedure.reviewed else "handoff.no"),
            ", ".join(procedure.reviewers),
        )
        for procedure in review.procedures
        for polyp in procedure.reviewed_polyps
    ]
    names = (
        "procedure",
        "polyp",
        "first",
        "last",
        "views",
        "best",
        *measured,
        "added",
        "done",
        "reviewers",
    )
    titles = [t(f"column.{name}") for name in names]

    # The table of procedures, which also has those without a polyp.
    counts = [
        (
            procedure.procedure,
            procedure.polyps,
            t("handoff.yes" if procedure.reviewed else "handoff.no"),
            ", ".join(procedure.reviewers),
        )
        for procedure in review.procedures
    ]
    count_titles = [t(f"column.{name}") for name in ("procedure", "polyps", "done", "reviewers")]

    # The warnings of the page, which a table alone does not state.
    notes = [t("simulated")] * review.simulated + [t("device"), *review.warnings]
    if review.probes_simulated:
        notes.append(t("probes_simulated"))
    sheets = {
        t("column.polyps"): (titles, polyps),
        t("report.procedures"): (count_titles, counts),
        t("report.notes"): ([t("report.notes")], [(note,) for note in notes]),
    }

    # The table of views, with the fields of `View`.
    view_fields = [field.name for field in fields(View)]
    views = [
        (procedure.procedure, polyp.polyp, *(getattr(view, name) for name in view_fields))
        for procedure in review.procedures
        for polyp in procedure.reviewed_polyps
        for view in polyp.views
    ]

    # All files.
    out = desk.out / FOLDER
    with change_folder(out, BOX_FOLDERS) as new:
        _write_xlsx(new / "polyps.xlsx", sheets)
        for name, (columns, rows) in {
            "polyps.csv": (titles, polyps),
            "procedures.csv": (count_titles, counts),
            "views.csv": (("procedure", "polyp", *view_fields), views),
        }.items():
            table = pl.DataFrame(rows, list(columns), orient="row", infer_schema_length=None)
            write_text(new / name, csv_text(table))
        write_json(new / "review.json", to_plain(review))
        write_json(new / "review.schema.json", review_schema())
        write_text(new / "report.html", page)
        coco, mot, returned = (new / name for name in BOX_FOLDERS)
        write_coco(data, coco)
        write_mot(_as_folders(data), mot, kind="det")
        return_boxes(desk.data, desk.prepared.data, tracks, returned)
    return sorted(path for path in out.rglob("*") if path.is_file() and path.name[0] != ".")


def review_schema() -> dict[str, Any]:
    """The JSON schema of review.json."""
    return TypeAdapter(Review).json_schema()


def identified_data(desk: Desk, *, finished: bool = False) -> DataSet:
    """The boxes of all polyps as a data set, with corrected identities as polyp ids.

    Args:
        desk: The reviewed folder.
        finished: Whether to include only procedures that are marked as finished.
    """
    boxes, polyps = [desk.prepared.detections.clear()], list[tuple[str, str]]()
    chosen = []
    for index, procedure in enumerate(desk.names):
        solved = desk.solve(index)
        if finished and not solved.decided.done:
            continue
        chosen.append(procedure)
        rows, tracklet = box_rows(solved.table[solved.counted])
        place = [solved.polyps[row] or 0 for row in solved.counted]
        names = [f"{procedure}_P{place[i] + 1}" for i in tracklet.tolist()]
        polyp_ids = pl.Series("polyp_id", names, dtype=pl.String)
        boxes.append(desk.prepared.detections[rows].with_columns(polyp_ids))
        # In their order, so that a format that numbers polyps gives each its own number.
        polyps += [(f"{procedure}_P{number + 1}", procedure) for number in sorted({*place})]
    procedures = desk.prepared.data.procedures.filter(pl.col("procedure_id").is_in(chosen))
    schema = {"polyp_id": pl.String, "procedure_id": pl.String}
    return DataSet.of(pl.concat(boxes), procedures, pl.DataFrame(polyps, schema, orient="row"))


def _as_folders(data: DataSet) -> DataSet:
    """The data set; if a procedure's name cannot be that of a folder, with names that can be."""
    names = data.procedures["procedure_id"].to_list()
    try:
        for name in names:
            file_name(name, exact=True)
    except PolyplinkError:
        folders = {name: readable_path(Path(), name).name for name in names}
        renamed = pl.col("procedure_id").replace_strict(folders, return_dtype=pl.String)
        detections, procedures, polyps = (
            table.with_columns(renamed) for table in (data.detections, data.procedures, data.polyps)
        )
        return DataSet.of(detections, procedures, polyps)
    return data


def _tracks(desk: Desk) -> pl.DataFrame:
    """track_id and corrected polyp of each box, as from `counting.link.tracks_of_boxes`."""
    prepared, solved = desk.prepared, [desk.solve(index) for index in range(len(desk.names))]
    tables = [prepared.tracklets.clear(), *(procedure.table for procedure in solved)]
    tracklets = pl.concat([table.select("offset", "n") for table in tables])
    polyps = [
        0 if place is None else place + 1 for procedure in solved for place in procedure.polyps
    ]
    return numbers_of_boxes(prepared.data.detections, prepared.detections, tracklets, polyps)


def _write_xlsx(path: Path, tables: Mapping[str, tuple[Sequence[str], Sequence[Any]]]) -> None:
    """Write a spreadsheet; texts are never interpreted as formulas or links.

    Args:
        path: The file.
        tables: Name of each sheet -> its titles and rows.
    """
    with extras_installed("a spreadsheet"):
        import xlsxwriter  # noqa: PLC0415 - an extra
    # In memory, because xlsxwriter has its own errors of files.
    written, safe = io.BytesIO(), {"strings_to_formulas": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(written, safe | {"in_memory": True}) as book:
        bold = book.add_format({"bold": True})
        for name, (titles, rows) in tables.items():
            sheet = book.add_worksheet(name)
            sheet.write_row(0, 0, titles, bold)
            for i, row in enumerate(rows, start=1):
                sheet.write_row(i, 0, [escape_control(v) if isinstance(v, str) else v for v in row])
            sheet.freeze_panes(1, 0)
            sheet.autofit()
    with atomic_file(path) as temporary:
        temporary.write_bytes(written.getvalue())


def _page(desk: Desk, review: Review, t: Texts) -> str:
    """The page to print: every polyp with its best views; it loads nothing from outside."""

    def picture(state: dict[str, Any], jpeg: Callable[[], bytes]) -> str | None:
        """A picture of a procedure as a data URI; None if it is missing: the verb warns."""
        try:
            return data_uri(jpeg())
        except PolyplinkError:  # neither recording nor crop
            desk.pictures.missing.add(state["id"])
            return None

    def pictures(state: dict[str, Any], group: dict[str, Any]) -> list[tuple[str | None, str]]:
        """Picture and time of the best view, then of others in order."""
        best = group["best"]
        images: list[tuple[str | None, str]] = []
        for row in [best, *[row for row in group["rows"] if row != best][: MOST_VIEWS - 1]]:
            tracklet, size = state["tracklets"][row], LARGE if row == best else SMALL
            jpeg = partial(desk.picture, state["index"], row, tracklet["best"], size)
            images.append((picture(state, jpeg), clock(tracklet["start_s"])))
        return images

    def added(state: dict[str, Any], missed: dict[str, Any]) -> list[tuple[str | None, str]]:
        """The place at which a reviewer added a polyp, and its time."""
        jpeg = partial(desk.place, state["index"], missed["frame"], LARGE)
        return [(picture(state, jpeg), clock(missed["at_s"]))]

    sections = []
    for index, procedure in enumerate(review.procedures):
        state = desk.procedure(index)
        images = [pictures(state, group) for group in state["groups"]]
        images += [added(state, missed) for missed in state["missed"]]
        polyps = list(zip(procedure.reviewed_polyps, images, strict=True))
        removed = [clock(view["start_s"]) for view in state["tracklets"] if view["removed"]]
        sections.append((procedure, polyps, removed))
    page = environment("polyplink.serve", "page").get_template("handoff.html.j2")
    return page.render(review=review, sections=sections, t=t, few=FEW)
