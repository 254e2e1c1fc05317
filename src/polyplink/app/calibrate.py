"""The verb `calibrate`: links, prices, false alarms and probes, stored in weights."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument

from polyplink.app import options
from polyplink.app.options import TrackletOptions, option
from polyplink.app.request import Result, check_given, inform
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress
from polyplink.report.notebook import Facts

if TYPE_CHECKING:
    from polyplink.app.linked import ProcedureTracklets
    from polyplink.associate import OperatingPoint
    from polyplink.data import DataSet
    from polyplink.encoders import Embeddings
    from polyplink.tracklets import Prepared


@dataclass(frozen=True)
class CalibrateRequest(TrackletOptions):
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
            no detector's boxes were given, or false alarms cannot be told from polyps.
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
    if request.stills is not None:
        PolyplinkError.unless(
            request.data is None, "both DATA and --stills are given", "give one of them"
        )
        from polyplink.app.calibrate_stills import calibrate_on_stills

        return calibrate_on_stills(request, request.stills, progress)
    PolyplinkError.unless(
        request.data is not None, "no data to calibrate on", "give a data folder, or --stills"
    )
    assert request.data is not None
    check_given(request.weights, request.data, [request.part], request.device, request.truth)
    from polyplink.encoders import read_record, weights_path

    path, out = weights_path(request.weights), request.out
    own = read_record(path)
    named = ("weights", "data", "truth", "part", "keep")
    asked: dict[str, Any] = {name: getattr(request, name) for name in named}
    record = RunRecord("calibrate", settings=asked)
    record.claim(out)
    from polyplink.app.linked import find_operating_point, true_counts, with_truth
    from polyplink.associate import from_record
    from polyplink.data import box_source, read_data, read_origin
    from polyplink.encoders.encode import encode
    from polyplink.encoders.leakage import seen_procedures
    from polyplink.encoders.named import load_named

    with record.stage("embed"):
        encoder = load_named(
            path,
            request.device,
            tracklets=request.tracklet_options,
            origin=read_origin(request.data),
        )
        asked["tracklets"] = encoder.prepare
        encoded = encode(
            [encoder], request.data, request.part, workers=request.workers, progress=progress
        )
    prepared = encoded.prepared
    record.inputs |= {"weights": encoder.key, "crops": prepared.key}
    with record.stage("calibrate"):
        labelled = prepared if request.truth is None else with_truth(prepared, request.truth)
        embeddings = encoded.embeddings[encoder.name]
        keep = None if request.truth is None else request.keep
        known = prepared.data if request.truth is None else read_data(request.truth)
        source = box_source(request.data, prepared.data, prepared.procedures)
        polyps = true_counts(known, prepared.procedures, every=request.truth is not None)
        fit = partial(find_operating_point, source=source, polyps=polyps)
        point = from_record(own.operating)
        point, warnings = _calibrated(point, labelled, embeddings, keep, fit)
        point, fitted, missing = _probed(point, known, labelled, embeddings)
        warnings += missing
    names = prepared.procedures
    met = seen_procedures(own.seen, prepared.data, names)
    if met:
        warnings.append(
            f"the encoder was trained or validated on {len(met)} of these procedures "
            f"({met[0][0]}, ...): calibrate on others, or the threshold is optimistic"
        )
    weights = store_operating_point(path, out, point, prepared.data, names)
    record.write(out)
    shown_polyps = labelled.tracklets["polyp_id"]
    alarms = None if request.truth is None or point.alarms is None else point.alarms.origin
    done = Calibrated(
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
    return Result(done, shown=shown, warnings=done.warnings)


def store_operating_point(
    path: Path, out: Path, point: "OperatingPoint", data: "DataSet", names: Sequence[str]
) -> Path:
    """Write weights with another operating point, and return their file in `out`.

    Args:
        path: The weights.
        out: Folder to write into.
        point: The operating point.
        data: What it was chosen on.
        names: Procedures of it; they count as validated on, so that `evaluate` does not use them.
    """
    from polyplink.encoders import WEIGHTS_FILE, read_record
    from polyplink.encoders.export import with_record
    from polyplink.encoders.leakage import seen_by
    from polyplink.encoders.weights import RECORD, read_tensors, record_text, write_tensors

    own = read_record(path)
    seen = replace(seen_by(data, (), names, own.seen), data=own.seen.data)
    made = replace(own, seen=seen, operating=asdict(point))
    if path.suffix == ".onnx":  # the record of an exported encoder is beside its graphs
        return with_record(path.parent, out, made)
    weights = out / WEIGHTS_FILE
    write_tensors(weights, read_tensors(path), {RECORD: record_text(made)})
    return weights


def _calibrated(
    point: "OperatingPoint",
    labelled: "Prepared",
    embeddings: "Embeddings",
    keep: float | None,
    fit: "Callable[[Sequence[ProcedureTracklets]], OperatingPoint]",
) -> "tuple[OperatingPoint, list[str]]":
    """The operating point with what is fitted on labelled tracklets of a detector, and warnings.

    Args:
        point: That of the weights.
        labelled: Tracklets with their true polyps, null for false alarms.
        embeddings: Their vectors.
        keep: Share of the polyps that the threshold of false alarms must keep; None to leave the
            model of false alarms as it is.
        fit: Finds an operating point on the tracklets of procedures.

    Raises:
        PolyplinkError: If no tracklet has a known polyp.
    """
    from polyplink.app.linked import by_procedure, screen, vectors_of
    from polyplink.associate import fit_alarms, tracklet_features, unit_rows

    table = labelled.tracklets
    PolyplinkError.unless(
        bool(table["polyp_id"].count()),
        "no tracklet has a known polyp",
        "give annotated procedures, or those of a detector's boxes with --truth",
    )
    warnings: list[str] = []
    if keep is not None:
        model = fit_alarms(
            tracklet_features(labelled),
            unit_rows(vectors_of(labelled, embeddings)),
            table["polyp_id"].to_list(),
            table["procedure_id"].to_list(),
            keep,
        )
        if isinstance(model, str):
            warnings.append(f"false alarms are not filtered: {model}")
        point = replace(point, alarms=None if isinstance(model, str) else model)
    # Links are fitted on what will be linked: tracklets that pass for polyps.
    left = screen(labelled, embeddings, point.alarms).prepared
    found = fit(by_procedure(left, embeddings))
    if found.links is None:
        return replace(point, origin=f"{point.origin} (here {found.origin})"), warnings
    return replace(found, alarms=point.alarms, size=point.size, adenoma=point.adenoma), warnings


def _probed(
    point: "OperatingPoint", data: "DataSet", labelled: "Prepared", embeddings: "Embeddings"
) -> "tuple[OperatingPoint, list[str], list[str]]":
    """The operating point with probes of what is known of the polyps.

    Args:
        point: Its probes are kept where sizes or histology are not known.
        data: Says size, histology and patient of the polyps.
        labelled: Tracklets with their true polyps.
        embeddings: Their vectors.

    Returns:
        The operating point, what the probes were fitted on, and why one that could be is missing.
    """
    import polars as pl

    from polyplink.app.linked import vectors_of
    from polyplink.associate import fit_adenoma, fit_size, mean_units
    from polyplink.data import SIMULATED

    shown = labelled.tracklets.select("procedure_id", "polyp_id").with_row_index("row").drop_nulls()
    group = pl.struct("procedure_id", "polyp_id").rank("dense").cast(pl.Int64) - 1
    shown = shown.with_columns(group=group)
    units = mean_units(
        vectors_of(labelled, embeddings)[shown["row"].to_numpy()], shown["group"].to_numpy()
    )
    try:
        adenomas, missing = data.adenoma_labels(), list[str]()
    except PolyplinkError as error:  # its words have no map
        adenomas = pl.repeat(None, data.polyps.height, dtype=pl.Int8, eager=True)
        missing = [f"histology is not reported: {error}"]
    patient = pl.concat_str("dataset", "patient", separator="/")
    table = (
        data.polyps.select("procedure_id", "polyp_id", "size_mm", adenoma=adenomas)
        .join(shown.unique("group"), on=["procedure_id", "polyp_id"])
        .join(data.procedures.select("procedure_id", "dataset", patient=patient), on="procedure_id")
        .sort("group")
    )
    simulated = any(name.startswith(SIMULATED) for name in table["dataset"])
    probes = {"size": point.size, "adenoma": point.adenoma}
    fitted = []
    for column, name, fit in (("size_mm", "size", fit_size), ("adenoma", "adenoma", fit_adenoma)):
        own = table.drop_nulls(column)
        if own.is_empty():
            continue
        values, patients = own[column].to_list(), own["patient"].to_list()
        found = fit(units[own["group"].to_numpy()], values, patients, simulated=simulated)
        if isinstance(found, str):
            missing.append(found)
            continue
        probes[name] = found
        fitted.append(found.origin + ("; simulated polyps among them" if simulated else ""))
    return replace(point, size=probes["size"], adenoma=probes["adenoma"]), fitted, missing
