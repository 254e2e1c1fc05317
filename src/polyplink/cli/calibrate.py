"""The verb `calibrate`: links, prices, false alarms and probes, stored in weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Unpack

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import (
    StrPath,
    TrackletOptions,
    check_inputs,
    refuse_folder_of_weights,
    stated_options,
)
from polyplink.cli.verb import inform, verb
from polyplink.core.artefacts import to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result, ShownFields
from polyplink.core.runs import RunRecord
from polyplink.core.text import many

STILLS = "stills"  # of the output folder: procedures made of stills
KEEP = 0.97  # share of the polyps that the threshold of false alarms must keep
FIGURES = "stills.json"  # how well those to test on are counted


@dataclass(frozen=True)
class Calibrated(ShownFields):
    """Calibrated weights.

    Attributes:
        weights: The weights file.
        polyps: Annotated polyps that a tracklet shows.
        tracklets: Tracklets of the detector's boxes.
        false_alarms: Tracklets that show no polyp.
        links: Data that the links were fitted on, and how well they count there.
        alarms: Data that the model of false alarms was fitted on, and its accuracy there; None if
            the boxes are annotated, or false alarms cannot be distinguished from polyps.
        probes: Data that the probes of size and histology were fitted on, and their accuracy
            there; empty if the polyps' sizes and histology are unknown.
        warnings: Warnings for the user.
    """

    weights: Path
    polyps: int
    tracklets: int
    false_alarms: int
    links: str
    alarms: str | None
    probes: tuple[str, ...]
    warnings: tuple[str, ...]


@verb
def calibrate(
    weights: options.Weights,
    data: Annotated[
        StrPath | None,
        Argument(
            help="Data folder that `polyplink import` or `detect` wrote; none with --stills.",
            show_default=False,
        ),
    ] = None,
    *,
    truth: Annotated[
        StrPath | None,
        Option(
            help="Data folder with annotated boxes of the same procedures, for a detector's boxes; "
            "by default the polyps in DATA."
        ),
    ] = None,
    stills: Annotated[
        StrPath | None,
        Option(
            help="Data folder of annotated still images, in place of DATA: procedures are made of "
            "them."
        ),
    ] = None,
    detector: Annotated[
        str | None, Option(help="With --stills: ONNX file, FILE.py:NAME of a function, or a name.")
    ] = None,
    empty: Annotated[
        StrPath | None,
        Option(metavar="FOLDER", help="With --stills: folder of images without a polyp."),
    ] = None,
    procedures: Annotated[
        int | None,
        Option(min=2, help="With --stills: procedures to make; 60 by default."),
    ] = None,
    polyps: Annotated[
        str | None, Option(help="With --stills: polyps per procedure; 3-6 by default.")
    ] = None,
    seed: Annotated[
        int | None, Option(min=0, help="With --stills: seed of the procedures; 0 by default.")
    ] = None,
    out: options.Out = "calibrated",
    part: options.Part = None,
    keep: Annotated[
        float | None,
        Option(
            min=0.5,
            max=1,
            help="Share of the polyps that the threshold of false alarms must keep; "
            f"{KEEP} by default.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Probability from which a link speaks for one polyp [that of the weights].",
        ),
    ] = None,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> Result[Calibrated]:
    """Fit links, false alarms, and probes of size and histology; writes new weights.

    Args:
        data: Data folder of annotated boxes, or of a detector's; none with `stills`.
        stills: Data folder of annotated still images, from which procedures are simulated; some
            of these test the count.
        out: The output folder for weights.safetensors, the same network with a new operating
            point; with `stills` also for the procedures and stills.json, the figures.
        keep: Share of the polyps that the threshold of false alarms must keep.
        tolerance: Probability from which a link lowers the cost of a partition (see `partition`);
            by default that of the weights, or 0.9.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If weights or data are missing or broken, a procedure is not annotated, or
            no tracklet has a known polyp.
    """
    weights, out = Path(weights), Path(out)
    data, truth = (None if path is None else Path(path) for path in (data, truth))
    for_stills = {
        "detector": detector,
        "empty": empty,
        "procedures": procedures,
        "polyps": polyps,
        "seed": seed,
    }
    _check_sources(data, stills, truth, for_stills, keep)

    check_inputs(weights, data if stills is None else Path(stills), [part], device, truth)
    from polyplink.encoders.weights import read_record, weights_path

    path = weights_path(weights)
    settings: dict[str, Any] = {}
    record = RunRecord("calibrate", settings=settings)
    record.claim(out)
    refuse_folder_of_weights(path, out)

    # The data: a folder, or procedures made of stills.
    notes: list[str] = []
    if stills is not None and detector is not None:
        least, most = (None, None) if polyps is None else _range(polyps)
        values = {"procedures": procedures, "least": least, "most": most, "seed": seed}
        from polyplink.stills.detected import FIT, write_detected
        from polyplink.stills.procedures import StillsConfig

        notes = write_detected(
            Path(stills),
            out / STILLS,
            StillsConfig(**{name: value for name, value in values.items() if value is not None}),
            detector,
            empty=None if empty is None else Path(empty),
            part=part,
            progress=progress,
        )
        data, truth, part = out / STILLS / f"{FIT}-boxes", out / STILLS / FIT, None
    assert data is not None
    settings |= {
        "weights": weights,
        "data": data,
        "truth": truth,
        "part": part,
        "keep": KEEP if keep is None else keep,
        "tolerance": tolerance,
    }
    from polyplink.counting.calibration import UNLABELLED, fit_calibration
    from polyplink.counting.operating_point import store_operating_point
    from polyplink.data.origin import read_origin
    from polyplink.data.tables import read_data
    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import load_named

    annotated = read_data(data if truth is None else truth)
    if not annotated.detections["polyp_id"].count():
        raise PolyplinkError(
            f"no box of {data if truth is None else truth} has a known polyp", UNLABELLED
        )

    # The operating point, stored in a copy of the weights.
    with record.stage("embed"):
        encoder = load_named(path, device, tracklets=tracklets, origin=read_origin(data))
        settings["tracklets"] = encoder.prepare
        encoded = encode([encoder], data, part, workers=workers, progress=progress)
    prepared = encoded.prepared
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    with record.stage("calibrate"):
        point, labelled, fitted, warnings = fit_calibration(
            encoded, read_record(path), data, truth, keep=settings["keep"], tolerance=tolerance
        )
    stored = store_operating_point(path, out, point, prepared.data, prepared.procedures)
    record.write(out)

    # Figures and messages, with those of a count of further stills.
    polyp_ids = labelled.tracklets["polyp_id"]
    alarms = None if truth is None or point.alarms is None else point.alarms.origin
    calibrated = Calibrated(
        weights=stored,
        polyps=polyp_ids.drop_nulls().n_unique(),
        tracklets=polyp_ids.len(),
        false_alarms=polyp_ids.null_count(),
        links=point.origin,
        alarms=alarms,
        probes=tuple(fitted),
        warnings=tuple(warnings),
    )
    of_alarms = [] if alarms is None else [f"false alarms: {alarms}"]
    printed = [f"{stored}: {point.origin}", *of_alarms, *fitted]
    if stills is None:
        return Result(calibrated, printed=printed, warnings=warnings)
    figures, tested = _test(stored, out, device, workers, tracklets, progress)
    facts = to_plain(calibrated) | {"test": figures}
    return Result(calibrated, facts, [*printed, tested], [*notes, *warnings])


def _check_sources(
    data: Path | None,
    stills: StrPath | None,
    truth: Path | None,
    for_stills: Mapping[str, object],
    keep: float | None,
) -> None:
    """Check that a data folder, or stills and a detector are given, and no option of the other.

    Args:
        data: The data folder.
        stills: The folder of stills.
        truth: The folder of annotated boxes.
        for_stills: Parameters for stills alone, with their values.
        keep: Share of the polyps that the threshold of false alarms must keep.
    """
    if data is not None and stills is not None:
        raise PolyplinkError("both DATA and --stills are given", "give one of them")
    if data is None and stills is None:
        raise PolyplinkError("no data to calibrate on", "give a data folder, or --stills")
    if stills is not None and for_stills["detector"] is None:
        raise PolyplinkError(
            "no detector to calibrate for",
            "name one with --detector FILE.onnx, FILE.py:NAME or its name",
        )
    unused = stated_options(for_stills)
    if stills is None and unused:
        raise PolyplinkError(
            f"{unused}: only for --stills",
            "leave it out; DATA holds procedures with the boxes of annotators or a detector",
        )
    if keep is not None and truth is None and stills is None:
        raise PolyplinkError(
            "--keep is for the false alarms of a detector, and DATA holds annotated boxes",
            "leave it out, or give the detector's boxes as DATA and the annotated ones as --truth",
        )
    if stills is not None and truth is not None:
        raise PolyplinkError(
            "--truth is for DATA, and the polyps of --stills are known", "leave it out"
        )


def _range(text: str) -> tuple[int, int]:
    """Fewest and most polyps from "3-6" or "4"."""
    low, _, high = text.partition("-")
    if not low.isdigit() or not (high or low).isdigit() or not (0 < int(low) <= int(high or low)):
        raise PolyplinkError(f"--polyps {text!r} is not a range", "write it as 3-6")
    return int(low), int(high or low)


def _test(
    weights: Path,
    out: Path,
    device: str,
    workers: int,
    tracklets: TrackletOptions,
    progress: Progress,
) -> tuple[dict[str, Any], str]:
    """Count the held-out procedures; returns figures, and a sentence about them.

    Args:
        weights: The calibrated weights.
        out: The output folder, which holds these procedures; the count and stills.json are added.
        device: Name of the device: auto, cpu, cuda or cuda:N.
        workers: Number of threads.
        tracklets: Settings of tracklets.
        progress: Called for crops and tracklets.
    """
    from polyplink.counting.interval import Coverage
    from polyplink.pipeline.count_data import count_data
    from polyplink.stills.detected import TEST

    # The count of the procedures held out, against the polyps that were drawn into them.
    folder = out / STILLS
    count = count_data(
        weights,
        folder / f"{TEST}-boxes",
        out / "test-count",
        truth=folder / TEST,
        device=device,
        workers=workers,
        tracklets=tracklets,
        progress=progress,
    ).value.count
    assert count.against_truth is not None
    compared, rows = count.against_truth["figures"], count.against_truth["procedures"]
    coverage = count.coverage or Coverage.of([])

    # Its figures, and the sentence that sums them up.
    figures = {
        "procedures": len(rows),
        "count_error": compared["count error"].value,
        "false_polyps": compared["false polyps"].value,
        "polyps": sum(row["polyps"] for row in rows),
        "polyps_found": sum(row["detected_polyps"] for row in rows),
        "intervals": coverage.procedures,
        "intervals_that_hold": f"{coverage.held} of {coverage.procedures}",
        "single_numbers": coverage.single,
        "single_numbers_wrong": coverage.single_wrong,
    }
    write_json(out / FIGURES, figures)
    held = f"90 % intervals that contain the number {figures['intervals_that_hold']}"
    if not coverage.procedures:
        held = "no 90 % intervals: too few procedures to fit on, give more --procedures"
    return figures, (
        f"tested on {many(len(rows), 'procedure')} of other stills: count error "
        f"{figures['count_error']:.2f}, false polyps {figures['false_polyps']:.2f} a procedure, "
        f"{held}"
    )
