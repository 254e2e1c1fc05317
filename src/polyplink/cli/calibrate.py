"""The verb `calibrate`: links, prices, false alarms and probes, stored in weights."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import TrackletRequest, option
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError
from polyplink.core.notebook import Facts
from polyplink.core.progress import Progress


@dataclass(frozen=True)
class CalibrateRequest(TrackletRequest):
    """Which weights to calibrate, on which detector's boxes, or on stills in motion."""

    weights: options.Weights
    data: Path | None = option(
        "Data folder that `polyplink import` or `detect` wrote; none with --stills.",
        kind=Argument,
        show_default=False,
    )
    truth: Path | None = option(
        "Data folder with annotated boxes of the same procedures, for a detector's boxes; "
        "by default the polyps in DATA."
    )
    stills: Path | None = option(
        "Data folder of annotated still images, in place of DATA: procedures are made of them."
    )
    detector: str | None = option("With --stills: the detector, an ONNX file or a name.")
    empty: Path | None = option(
        "With --stills: folder of images without a polyp.", metavar="FOLDER"
    )
    procedures: int = option("With --stills: procedures to make.", 60, min=2)
    polyps: str = option("With --stills: polyps of a procedure, from-to.", "3-6")
    seed: int = option("With --stills: seed of the procedures.", 0, min=0)
    out: options.Out = Path("calibrated")
    part: options.Part = None
    keep: float = option("Share of the polyps that the threshold must keep.", 0.97, min=0.5, max=1)
    device: options.Device = "auto"
    workers: options.Workers = 2


@dataclass(frozen=True)
class Calibrated(Facts):
    """Calibrated weights.

    Attributes:
        weights: The weights file.
        polyps: Annotated polyps that a tracklet shows.
        tracklets: Tracklets of the detector's boxes.
        false_alarms: Those of them that show no polyp.
        links: What the links were fitted on and how well they count there.
        alarms: What the model of false alarms was fitted on and how well it does there; None where
            no detector's boxes were given, or false alarms cannot be distinguished from polyps.
        probes: What the probes of size and histology were fitted on and how well they do there;
            empty where the polyps' sizes and histology are not known.
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


def calibrate(request: CalibrateRequest, progress: Progress = inform) -> Result[Calibrated]:
    """Fit links, false alarms, and probes of size and histology; writes new weights.

    Args:
        request: Weights, a data folder (of annotated boxes, or of a detector's and one of annotated
            boxes of the same procedures), and the output folder, which gets weights.safetensors:
            the same network with a new operating point.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If weights or data are at fault, a procedure is not annotated, or no
            tracklet has a known polyp.
    """
    PolyplinkError.unless(
        request.data is None or request.stills is None,
        "both DATA and --stills are given",
        "give one of them",
    )
    PolyplinkError.unless(
        request.data is not None or request.stills is not None,
        "no data to calibrate on",
        "give a data folder, or --stills",
    )
    if request.stills is not None:
        return _on_stills(request, request.stills, progress)
    return _on_data(request, progress)


def _on_stills(request: CalibrateRequest, stills: Path, progress: Progress) -> Result[Calibrated]:
    """Calibrate on procedures that are made of stills, and test the count on others."""
    from polyplink.cli.calibrate_stills import FIT, test_count, write_procedures_of
    from polyplink.core.artefacts import to_plain

    warnings = write_procedures_of(
        stills,
        request.out,
        weights=request.weights,
        detector=request.detector,
        empty=request.empty,
        part=request.part,
        procedures=request.procedures,
        polyps=request.polyps,
        seed=request.seed,
        device=request.device,
        progress=progress,
    )
    stills_data = request.out / FIT
    fitted = _on_data(
        replace(
            request, data=Path(f"{stills_data}-boxes"), truth=stills_data, stills=None, part=None
        ),
        progress,
    )
    figures, tested = test_count(
        fitted.value.weights,
        request.out,
        device=request.device,
        workers=request.workers,
        tracklets=request.tracklet_options,
        progress=progress,
    )
    facts = to_plain(fitted.value) | {"test": figures}
    shown, warnings = [*fitted.shown, tested], [*warnings, *fitted.warnings]
    return Result(fitted.value, facts, shown, warnings)


def _on_data(request: CalibrateRequest, progress: Progress) -> Result[Calibrated]:
    """Calibrate on the boxes of a data folder."""
    assert request.data is not None
    check_given(request.weights, request.data, [request.part], request.device, request.truth)
    from polyplink.encoders import read_record, weights_path

    path, out = weights_path(request.weights), request.out
    weights_record = read_record(path)
    setting_names = ("weights", "data", "truth", "part", "keep")
    settings: dict[str, Any] = {name: getattr(request, name) for name in setting_names}
    record = RunRecord("calibrate", settings=settings)
    record.claim(out)
    from polyplink.associate import from_record
    from polyplink.counting.calibrate import fit_point, fit_probes
    from polyplink.counting.labels import true_counts, with_truth
    from polyplink.counting.operating_point import find_operating_point, store_operating_point
    from polyplink.data import box_source, read_data, read_origin
    from polyplink.encoders.encode import encode
    from polyplink.encoders.leakage import seen_procedures
    from polyplink.encoders.load import load_named

    with record.stage("embed"):
        encoder = load_named(
            path,
            request.device,
            tracklets=request.tracklet_options,
            origin=read_origin(request.data),
        )
        settings["tracklets"] = encoder.prepare
        encoded = encode(
            [encoder], request.data, request.part, workers=request.workers, progress=progress
        )
    prepared = encoded.prepared
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    with record.stage("calibrate"):
        labelled = prepared if request.truth is None else with_truth(prepared, request.truth)
        embeddings = encoded.embeddings[encoder.name]
        keep = None if request.truth is None else request.keep
        truth_data = prepared.data if request.truth is None else read_data(request.truth)
        source = box_source(request.data, prepared.data, prepared.procedures)
        polyps = true_counts(truth_data, prepared.procedures, every=request.truth is not None)
        fit = partial(find_operating_point, source=source, polyps=polyps)
        point = from_record(weights_record.operating)
        point, warnings = fit_point(point, labelled, embeddings, keep, fit)
        point, fitted, missing = fit_probes(point, truth_data, labelled, embeddings)
        warnings += missing
    names = prepared.procedures
    seen_in_training = seen_procedures(weights_record.seen, prepared.data, names)
    if seen_in_training:
        warnings.append(
            f"the encoder was trained or validated on {len(seen_in_training)} of these procedures "
            f"({seen_in_training[0][0]}, ...): calibrate on others, or the threshold is optimistic"
        )
    weights = store_operating_point(path, out, point, prepared.data, names)
    record.write(out)
    shown_polyps = labelled.tracklets["polyp_id"]
    alarms = None if request.truth is None or point.alarms is None else point.alarms.origin
    calibrated = Calibrated(
        weights,
        shown_polyps.drop_nulls().n_unique(),
        shown_polyps.len(),
        shown_polyps.null_count(),
        point.origin,
        alarms,
        tuple(fitted),
        tuple(warnings),
    )
    shown = [f"{weights}: {point.origin}"]
    shown += [] if alarms is None else [f"false alarms: {alarms}"]
    shown += fitted
    return Result(calibrated, shown=shown, warnings=calibrated.warnings)
