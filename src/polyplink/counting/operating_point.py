"""The operating point: fitted on labelled procedures, and stored in weights.

It consists of the link model of a count, the price of a polyp for each purpose, the spread of the
price for the interval of a count, and a model of the detector's false alarms. It is fitted on the
labelled procedures of a training run by cross-fitting, or by `calibrate`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import Calibration, OperatingPoint, Purpose, untuned
from polyplink.associate.links import (
    COMMON,
    NotFitted,
    fit_and_cross_fit,
    fit_unlabelled,
    unlabelled_price,
)
from polyplink.associate.partition import PRICES, TOLERANCE, partition
from polyplink.core.messages import Message, text_of
from polyplink.counting.interval import fit_interval
from polyplink.counting.link import ProcedureTracklets, by_procedure, known_counts
from polyplink.data.origin import ANNOTATED, BoxSource, box_source
from polyplink.data.tables import DataSet
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encode import embed
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.export import with_record
from polyplink.encoders.weights import (
    RECORD,
    WEIGHTS_FILE,
    read_record,
    read_tensors,
    record_text,
    seen_by,
    write_tensors,
)
from polyplink.evaluate.choosing import choose
from polyplink.evaluate.counting import ProcedureCounts, count_procedure
from polyplink.tracklets.prepare import Prepared
from polyplink.tracklets.settings import PrepareSettings, box_settings

LARGE = 0.9  # share of the procedures of stills with at most as many views as an interval is for


def find_operating_point(
    procedures: Sequence[ProcedureTracklets],
    source: BoxSource | None = None,
    polyps: Mapping[str, int] | None = None,
    *,
    tolerance: float = TOLERANCE,
    patients: Mapping[str, str] | None = None,
    settings: PrepareSettings | None = None,
) -> OperatingPoint:
    """Fit the links on labelled procedures, and choose prices by cross-fitting.

    Every procedure is partitioned under all prices with the probabilities of a model fitted on
    other patients. On these partitions a price is chosen for each purpose, and the interval that
    holds the true number in 90 % of the procedures (see `fit_interval`). The error of the count is
    that of each procedure under the price chosen on other patients. The model that is stored is
    fitted on all procedures.

    Args:
        procedures: The procedures; those without labels are left out. If none has labels, links are
            fitted on the order of tracklets, and nothing is tuned.
        source: Source of the boxes, for the record; None for several sources.
        polyps: True number of polyps of each annotated procedure, including polyps without a
            tracklet; by default the number of polyps with a tracklet. Prices and interval are
            chosen on these procedures, links on all with labels.
        tolerance: Probability from which a link lowers the cost of a partition.
        patients: Patient of each procedure; by default, each is of another. Procedures of stills in
            motion that show the same stills are of one patient.
        settings: Settings of the tracklets, for the record.
    """
    labelled = [procedure for procedure in procedures if procedure.has_polyp]
    if not labelled:
        return _without_labels(procedures)

    # Link probabilities of each procedure, by a model fitted on the others. Procedures of stills
    # are all alike, but the recordings to be counted may be short or of another camera.
    stills = source is not None and source.material == "stills in motion"
    variants = [
        [(procedure.views, procedure.polyps)]
        + ([(procedure.views.with_common(COMMON), procedure.polyps)] if stills else [])
        for procedure in labelled
    ]
    patient_of = patients or {p.procedure_id: p.procedure_id for p in procedures}
    try:
        model, crossed = fit_and_cross_fit(
            variants, patients=[patient_of[p.procedure_id] for p in labelled], any_length=stills
        )
    except NotFitted as error:
        return untuned(str(error))

    # The price for each purpose. The error of a count includes false alarms and missed polyps. It
    # is unknown where boxes are of unknown polyps; if it is known of fewer than two patients, the
    # polyps of the tracklets are counted there.
    evaluated = list(zip(crossed, labelled, strict=True))
    of_counted_patients = [pair for pair in evaluated if pair[1].procedure_id in (polyps or ())]
    if len({patient_of[procedure.procedure_id] for _, procedure in of_counted_patients}) > 1:
        evaluated = of_counted_patients
    counts = []
    errors = []
    for probabilities, procedure in evaluated:
        for P in probabilities:
            clusters = partition(P, PRICES, tolerance=tolerance)  # (s, n)
            of_polyps = count_procedure(clusters, procedure.polyps, procedure.procedure_id)
            n_true = (polyps or {}).get(procedure.procedure_id, of_polyps.polyps)
            counts.append(of_polyps)
            errors.append(clusters.max(axis=1) + 1 - n_true)  # (s,)
    chosen = {
        purpose: choose(counts, purpose=purpose, errors=errors) for purpose in get_args(Purpose)
    }
    prices = {purpose: PRICES[choice.row] for purpose, choice in chosen.items()}
    # Only the first variant of a procedure, its own views, is in the error that is stated.
    of_patient = [patient_of[count.procedure] for count in counts]
    abs_errors = np.abs(_cross_errors(counts, errors, of_patient))[:: len(variants[0])]  # (p,)
    error_and_share = {
        "error": f"{abs_errors.mean():.2f}",
        "share": f"{100 * (abs_errors == 0).mean():.0f}",
    }
    origin = [
        Message(
            "origin.links_of_stills" if stills else "origin.links",
            {"pairs": model.pairs, "n": len(labelled)},
        ),
        Message("origin.count", error_and_share),
    ]

    # The interval of the count.
    n_polyps = {c.procedure: c.polyps for c in counts} if polyps is None else polyps
    trials = [(procedure, P[0]) for procedure, P in zip(labelled, crossed, strict=True)]
    # Procedures with false alarms only are not used in the fit, so the model is tested on them.
    alarms = [procedure for procedure in procedures if not procedure.has_polyp]
    trials += [(procedure, model.probability(procedure.views)) for procedure in alarms]
    trials = [(procedure, P) for procedure, P in trials if procedure.procedure_id in n_polyps]
    true_numbers = [n_polyps[procedure.procedure_id] for procedure, _ in trials]
    setting = LearnedLinks(prices["count"], tolerance)
    trial_patients = [patient_of[procedure.procedure_id] for procedure, _ in trials]
    interval = fit_interval(
        [P for _, P in trials], true_numbers, setting, trial_patients, any_length=stills
    )
    calibration = None
    if source is not None:
        sizes = [len(P) for _, P in trials] or [0]
        views = int(np.quantile(sizes, LARGE, method="lower")) if stills else max(sizes)
        tracklets = None
        if settings is not None:
            tracklets = box_settings(settings, annotated=source.boxes == ANNOTATED)
        calibration = Calibration(
            **asdict(source), procedures=len(trials), views=views, tracklets=tracklets
        )
    point = OperatingPoint(
        setting,
        model,
        text_of(origin),
        prices,
        error=float(abs_errors.mean()),
        calibration=calibration,
    )
    if interval is None:
        return point
    origin.append(Message("origin.intervals", {"share": f"{100 * interval.held:.0f}"}))
    return replace(
        point,
        origin=text_of(origin),
        spread=interval.spread,
        margin=interval.margin,
        lone=interval.lone,
    )


def _cross_errors(
    counts: Sequence[ProcedureCounts],
    errors: Sequence[npt.NDArray[np.integer]],
    patients: Sequence[str],
) -> list[int]:
    """The error of each count under the price that procedures of other patients choose.

    Under a price chosen on the same procedures the error of few of them would be 0.

    Args:
        counts: Of two procedures or more, under all prices.
        errors: Counted minus true number of polyps of each, under all prices (s,).
        patients: Patient of each.
    """
    cross_errors = []
    for index, error in enumerate(errors):
        others = [i for i, patient in enumerate(patients) if patient != patients[index]]
        choice = choose(
            [counts[i] for i in others], purpose="count", errors=[errors[i] for i in others]
        )
        cross_errors.append(int(error[choice.row]))
    return cross_errors


def _without_labels(procedures: Sequence[ProcedureTracklets]) -> OperatingPoint:
    """The operating point of procedures without known polyps: links fitted without labels."""
    several = [procedure.views for procedure in procedures if len(procedure.polyps) > 1]
    try:
        model = fit_unlabelled(several)
    except NotFitted as error:
        return untuned(Message("origin.no_polyps_and", {"why": str(error)}))
    origin = [
        Message("origin.untuned", {"why": Message("origin.no_polyps")}),
        Message("origin.unlabelled", {"n": len(several)}),
    ]
    return OperatingPoint(LearnedLinks(unlabelled_price(several)), model, text_of(origin))


def fit_trained(encoder: Encoder, prepared: Prepared, data: Path) -> OperatingPoint:
    """Fit the operating point of a new encoder on the procedures of its training.

    All of them are used, held out or not: three are too few to choose on.

    Args:
        encoder: The encoder.
        prepared: The tracklets of the procedures.
        data: The data folder.
    """
    if prepared.tracklets.is_empty():
        return untuned(Message("origin.no_tracklets"))
    embeddings = embed(prepared, NetworkEmbedder(encoder), "in training")
    source = box_source(data, prepared.data, prepared.procedures)
    return find_operating_point(
        by_procedure(prepared, embeddings),
        source,
        known_counts(prepared),
        patients=prepared.data.patients,
        settings=prepared.settings,
    )


def store_operating_point(
    path: Path, out: Path, point: OperatingPoint, data: DataSet, names: Sequence[str]
) -> Path:
    """Write weights with another operating point, and return their file in `out`.

    Args:
        path: The weights.
        out: Folder to write into.
        point: The operating point.
        data: The data set of the calibration.
        names: Procedures of the calibration; recorded as seen, so that `evaluate` leaves them out.
    """
    record = read_record(path)
    seen = replace(seen_by(data, (), names, record.seen), data=record.seen.data)
    new_record = replace(record, seen=seen, operating=asdict(point))
    if path.suffix == ".onnx":  # the record of an exported encoder is a file next to its graphs
        return with_record(path.parent, out, new_record)
    weights = out / WEIGHTS_FILE
    write_tensors(weights, read_tensors(path), {RECORD: record_text(new_record)})
    return weights
