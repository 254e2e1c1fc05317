"""The verb `calibrate`: links, prices and false alarms for given boxes, stored in weights."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from polyplink.app.request import (
    Data,
    Device,
    Out,
    Part,
    Progress,
    Result,
    TrackletOptions,
    Weights,
    Workers,
    check_given,
    inform,
)
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError

if TYPE_CHECKING:
    from polyplink.associate import OperatingPoint
    from polyplink.data import DataSet
    from polyplink.encoders import Embeddings
    from polyplink.tracklets import Prepared


@dataclass(frozen=True)
class CalibrateRequest(TrackletOptions):
    """Which weights to calibrate, on which detector's boxes."""

    weights: Weights
    data: Data
    truth: Annotated[
        Path | None,
        Option(
            help="Data folder with annotated boxes of the same procedures, for a detector's boxes; "
            "by default the polyps in DATA."
        ),
    ] = None
    out: Out = Path("calibrated")
    part: Part = None
    keep: Annotated[
        float, Option(min=0.5, max=1, help="Share of the polyps that the threshold must keep.")
    ] = 0.97
    device: Device = "auto"
    workers: Workers = 2


@dataclass(frozen=True)
class Calibrated:
    """Calibrated weights.

    Attributes:
        weights: The weights file.
        polyps: Annotated polyps that a tracklet shows.
        tracklets: Tracklets of the detector's boxes.
        false_alarms: Those of them that show no polyp.
        links: What the links were fitted on and how well they count there.
        alarms: What the model of false alarms was fitted on and how well it does there; None where
            no detector's boxes were given, or false alarms cannot be told from polyps.
        warnings: Warnings for the user.
    """

    weights: Path
    polyps: int
    tracklets: int
    false_alarms: int
    links: str
    alarms: str | None
    warnings: tuple[str, ...]


def calibrate(request: CalibrateRequest, progress: Progress = inform) -> Result[Calibrated]:
    """Fit links, and a detector's false alarms, on annotated procedures; writes new weights.

    Args:
        request: Weights, a data folder (of annotated boxes, or of a detector's and one of annotated
            boxes of the same procedures), and the output folder, which gets weights.safetensors:
            the same network with a new operating point.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If weights or data are at fault, a procedure is not annotated, or no
            tracklet has a known polyp.
    """
    check_given(request.weights, request.data, [request.part], request.device, request.truth)
    from polyplink.app.encoded import encode, load_named
    from polyplink.app.leakage import seen_procedures
    from polyplink.app.linked import with_truth
    from polyplink.associate import from_record
    from polyplink.encoders import read_record, weights_path

    path, out = weights_path(request.weights), request.out
    own = read_record(path)
    named = ("weights", "data", "truth", "part", "keep")
    asked: dict[str, Any] = {name: getattr(request, name) for name in named}
    record = RunRecord("calibrate", settings=asked)
    record.claim(out)
    with record.stage("embed"):
        encoder = load_named(path, request.device, tracklets=request)
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
        point, warnings = _calibrated(from_record(own.operating), labelled, embeddings, keep)
    names = prepared.procedures
    met = seen_procedures(own.seen, prepared.data, names)
    if met:
        warnings.append(
            f"the encoder was trained or validated on {len(met)} of these procedures "
            f"({met[0][0]}, ...): calibrate on others, or the threshold is optimistic"
        )
    weights = store_operating_point(path, out, point, prepared.data, names)
    record.write(out)
    polyps = labelled.tracklets["polyp_id"]
    alarms = None if request.truth is None or point.alarms is None else point.alarms.origin
    done = Calibrated(
        weights,
        polyps.drop_nulls().n_unique(),
        polyps.len(),
        polyps.null_count(),
        point.origin,
        alarms,
        tuple(warnings),
    )
    shown = [f"{weights}: {point.origin}"]
    shown += [] if alarms is None else [f"false alarms: {alarms}"]
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
    from polyplink.app.leakage import seen_by
    from polyplink.encoders import WEIGHTS_FILE, read_record
    from polyplink.encoders.export import with_record
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
    point: "OperatingPoint", labelled: "Prepared", embeddings: "Embeddings", keep: float | None
) -> "tuple[OperatingPoint, list[str]]":
    """The operating point with what is fitted on labelled tracklets of a detector, and warnings.

    Args:
        point: That of the weights.
        labelled: Tracklets with their true polyps, null for false alarms.
        embeddings: Their vectors.
        keep: Share of the polyps that the threshold of false alarms must keep; None to leave the
            model of false alarms as it is.

    Raises:
        PolyplinkError: If no tracklet has a known polyp.
    """
    from polyplink.app.linked import by_procedure, find_operating_point, screen, vectors_of
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
    found = find_operating_point(by_procedure(left, embeddings))
    if found.links is None:
        return replace(point, origin=f"{point.origin} (here {found.origin})"), warnings
    return replace(found, alarms=point.alarms), warnings
