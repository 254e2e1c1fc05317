"""The verbs `review`, `hand-off` and `learn-from`: a person corrects a count, and it learns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, echo

from polyplink.cli import options
from polyplink.cli.options import Request, option
from polyplink.cli.verb import Result, inform
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError
from polyplink.core.notebook import Facts
from polyplink.core.progress import Progress
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.counting.link import ProcedureTracklets
    from polyplink.serve import Desk

Folder = Annotated[Path, Argument(help="Folder that `polyplink run` or `count` wrote.")]
DataFolder = Annotated[
    Path | None, Option("--data", help="Data folder that was counted, if it was moved.")
]
Masks = Annotated[
    Sequence[str],
    Option(
        "--mask-overlay",
        help="Black in every picture: LEFT,TOP,WIDTH,HEIGHT in pixels of the recording, or "
        "`field`: the border around what the endoscope sees. Repeatable.",
    ),
]


@dataclass(frozen=True)
class ReviewRequest(Request):
    """Which count to review, and how to serve the page."""

    folder: Folder
    reviewer: str = option("Your name, for the log of corrections.", "")
    data: DataFolder = None
    mask_overlay: Masks = ()
    index: Path | None = option("Index to show similar earlier views of, too.")
    port: int = option("Port; 0 takes any free one.", 0, min=0, max=65535)
    browser: bool = option("Open the page in the browser.", True)


def review(request: ReviewRequest, progress: Progress = inform) -> Result[Path]:
    """Open a count in the browser, to look at and to correct; serves until Ctrl-C.

    Args:
        request: The folder; every answer is appended to corrections.jsonl in it.
        progress: Not called.

    Raises:
        PolyplinkError: If the folder was not counted, its data have changed, or the port is taken.
    """
    from polyplink.serve import counted_folder

    counted_folder(request.folder)
    from polyplink.serve.server import serve

    desk_options = (request.folder, request.data, request.mask_overlay, request.reviewer)
    desk = _open(*desk_options, request.index)
    questions = sum(procedure["questions"] for procedure in desk.overview()["procedures"])

    def ready(address: str) -> None:
        echo(f"review: {address}\nopen this address; Ctrl-C ends")
        if request.browser:
            import webbrowser

            webbrowser.open(address)

    serve(desk, port=request.port, ready=ready)
    answers = len(desk.log())
    facts = {"folder": str(desk.out), "questions": questions, "corrections": answers}
    return Result(desk.out, facts, [f"{answers} corrections in {desk.out}"])


@dataclass(frozen=True)
class HandOffRequest(Request):
    """Which review to hand off."""

    folder: Folder
    language: Literal["en", "de", "it"] = option("Of headings and the page.", "en")
    data: DataFolder = None
    mask_overlay: Masks = ()


def hand_off_review(request: HandOffRequest, progress: Progress = inform) -> Result[list[Path]]:
    """Write a reviewed count as spreadsheet, page to print, JSON, COCO and MOT.

    Args:
        request: The folder; the files go into its folder `reviewed`.
        progress: Not called.

    Raises:
        PolyplinkError: If the folder was not counted, or its data have changed.
    """
    from polyplink.serve import counted_folder

    counted_folder(request.folder)
    from polyplink.serve.handoff import FOLDER, hand_off

    desk = _open(request.folder, request.data, request.mask_overlay)
    paths = hand_off(desk, request.language)
    facts = {"folder": str(desk.out / FOLDER), "files": [str(path) for path in paths]}
    unfinished = [
        procedure["id"] for procedure in desk.overview()["procedures"] if not procedure["done"]
    ]
    names = ", ".join(unfinished[:3]) + (", ..." if len(unfinished) > 3 else "")
    unfinished_text = [f"{many(len(unfinished), 'procedure')} not marked as finished ({names})"]
    warnings = unfinished_text if unfinished else []
    if bare := sorted(desk.pictures.borderless):
        warnings.append(
            f"{many(len(bare), 'procedure')} without a dark border ({bare[0]}): `field` masks "
            "nothing there; cover text over the picture with --mask-overlay LEFT,TOP,WIDTH,HEIGHT"
        )
    return Result(paths, facts, [str(path) for path in paths], warnings)


@dataclass(frozen=True)
class LearnFromRequest(Request):
    """From which reviews to learn, and for which weights."""

    weights: options.Weights
    folders: Annotated[Sequence[Path], Argument(help="Reviewed folders.")]
    out: options.Out = Path("learned")


@dataclass(frozen=True)
class Learned(Facts):
    """What was learned from reviews.

    Attributes:
        weights: The weights with links and operating point of the reviews.
        data: Data folder of the reviewed procedures with the corrected identities, for `train`.
        procedures: Procedures that were learned from: those marked as finished.
        links: What the links were fitted on, and how well they count there.
    """

    weights: Path
    data: Path
    procedures: int
    links: str


def learn_from(request: LearnFromRequest, progress: Progress = inform) -> Result[Learned]:
    """Fit links and operating point on finished reviews; writes new weights and labelled data.

    Args:
        request: The weights that counted, the reviewed folders, and the output folder, which gets
            weights.safetensors and data (boxes with the corrected identities).
        progress: Not called.

    Raises:
        PolyplinkError: If no procedure is marked as finished, a folder was counted with other
            weights, or the reviews hold no pair of views of one polyp and of two.
    """
    from polyplink.encoders import read_record, weights_path
    from polyplink.serve import counted_folder

    out, path = request.out, weights_path(request.weights)
    for folder in request.folders:
        counted_folder(folder)
    from polyplink.associate import from_record
    from polyplink.data import box_source, merge, write_data
    from polyplink.encoders.weights import weights_id
    from polyplink.serve.handoff import identified

    settings = {"weights": request.weights, "folders": list(request.folders)}
    record = RunRecord("learn-from", settings=settings)
    record.claim(out)
    before, key = from_record(read_record(path).operating), weights_id(path)
    desks = [_open(folder, None, ()) for folder in request.folders]
    for desk in desks:
        PolyplinkError.unless(
            desk.count.weights.startswith(key),
            f"{desk.out} was counted with weights {desk.count.weights}, and {path} are {key}",
            "give the weights that counted",
        )
    import numpy as np

    from polyplink.counting.operating_point import find_operating_point, store_operating_point

    labelled = [labels for desk in desks for labels in _finished(desk)]
    PolyplinkError.unless(
        bool(labelled),
        f"no procedure of {', '.join(map(str, request.folders))} is marked as finished",
        "finish some in `polyplink review`",
    )
    sources = {box_source(desk.data, desk.prepared.data, desk.names) for desk in desks}
    with record.stage("learn"):
        point = find_operating_point(labelled, sources.pop() if len(sources) == 1 else None)
    PolyplinkError.unless(
        point.error is not None, point.origin, "finish the review of more procedures"
    )
    assert point.error is not None
    was = np.mean([abs(polyps) for desk in desks for polyps in _corrected(desk)])
    notes = []
    if point.error > was:
        notes.append(
            f"links fitted on the reviews would count them off by {point.error:.2f} polyps, those "
            f"of the weights by {was:.2f}: the weights keep theirs; review more procedures"
        )
        point = before
    data = merge([(desk.data, identified(desk, finished=True)) for desk in desks])
    write_data(out / "data", data)
    point = replace(point, alarms=before.alarms, size=before.size, adenoma=before.adenoma)
    names = data.procedures["procedure_id"].to_list()
    weights = store_operating_point(path, out, point, data, names)
    record.write(out)
    learned = Learned(weights, out / "data", len(labelled), point.origin)
    shown = [f"{weights}: {point.origin}", f"{learned.data}: boxes with the corrected identities"]
    return Result(learned, shown=shown, warnings=notes)


def _corrected(desk: "Desk") -> list[int]:
    """By how many polyps the review has changed the count of each finished procedure."""
    before = [procedure.polyps for procedure in desk.count.procedures]
    rows = desk.overview()["procedures"]
    return [row["polyps"] - was for row, was in zip(rows, before, strict=True) if row["done"]]


def _finished(desk: "Desk") -> "list[ProcedureTracklets]":
    """The finished procedures of a desk, with the corrected identities as their polyps."""
    import polars as pl

    from polyplink.counting.link import ProcedureTracklets

    labelled = []
    for index, name in enumerate(desk.names):
        solved = desk.solve(index)
        if solved.decided.done and solved.views is not None:
            table = solved.table[solved.counted]
            polyps = [f"P{(solved.polyps[row] or 0) + 1}" for row in solved.counted]
            table = table.with_columns(polyp_id=pl.Series(polyps))
            labelled.append(
                ProcedureTracklets(name, table, table["position"].to_numpy(), solved.views)
            )
    return labelled


def _open(
    folder: Path,
    data: Path | None,
    masks: Sequence[str],
    reviewer: str = "",
    index: Path | None = None,
) -> "Desk":
    from polyplink.serve import Desk
    from polyplink.serve.pictures import parse_mask

    rectangles = [parse_mask(mask) for mask in masks if mask != "field"]
    return Desk(folder, data, reviewer, rectangles, index, field="field" in masks)
