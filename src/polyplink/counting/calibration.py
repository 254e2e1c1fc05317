"""Calibration: fit links, prices, false alarms, and probes of size and histology."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink.associate.alarms import fit_alarms, tracklet_features
from polyplink.associate.identities import OperatingPoint, recorded_point
from polyplink.associate.links import NotFitted
from polyplink.associate.probes import fit_adenoma, fit_size, mean_units
from polyplink.associate.similarity import unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.counting.labels import with_truth
from polyplink.counting.link import by_procedure, screen, true_counts, vectors_of
from polyplink.counting.operating_point import find_operating_point
from polyplink.data.origin import BoxSource, box_source
from polyplink.data.tables import DataSet, read_data
from polyplink.data.vocabulary import is_simulated
from polyplink.encoders.encode import Embeddings, Encoded
from polyplink.encoders.weights import WeightsRecord, seen_procedures
from polyplink.tracklets.prepare import Prepared

UNLABELLED = "give annotated procedures, or a detector's boxes with their annotations as --truth"


def fit_calibration(
    encoded: Encoded,
    record: WeightsRecord,
    data: Path,
    truth: Path | None,
    *,
    keep: float,
    tolerance: float | None = None,
) -> tuple[OperatingPoint, Prepared, list[str], list[str]]:
    """Fit the operating point of weights on encoded tracklets.

    Args:
        encoded: The tracklets, and their vectors by the encoder of the weights alone.
        record: The record of the weights.
        data: The data folder of the boxes.
        truth: The data folder of annotated boxes; None if it is `data`.
        keep: Share of the polyps that the threshold of false alarms must keep.
        tolerance: See `fit_point`.

    Returns:
        The operating point, the tracklets with their true polyps, a sentence about each probe, and
        warnings.

    Raises:
        PolyplinkError: If no tracklet has a known polyp.
    """
    prepared, (embeddings,) = encoded.prepared, encoded.embeddings.values()
    names = prepared.procedures
    labelled = prepared if truth is None else with_truth(prepared, truth)
    truth_data = prepared.data if truth is None else read_data(truth)
    point, warnings = fit_point(
        recorded_point(record.operating),
        labelled,
        embeddings,
        None if truth is None else keep,
        source=box_source(data, prepared.data, names),
        polyps=true_counts(truth_data, names, every=truth is not None),
        patients=truth_data.patients,
        tolerance=tolerance,
    )
    point, fitted, missing = fit_probes(point, truth_data, labelled, embeddings)
    warnings += missing
    seen = seen_procedures(record.seen, prepared.data, names)
    if seen:
        warnings.append(
            f"the encoder was trained or validated on {len(seen)} of these procedures "
            f"({seen[0][0]}, ...): calibrate on others, or the threshold is optimistic"
        )
    return point, labelled, fitted, warnings


def fit_point(
    point: OperatingPoint,
    labelled: Prepared,
    embeddings: Embeddings,
    keep: float | None,
    *,
    source: BoxSource | None,
    polyps: Mapping[str, int] | None,
    patients: Mapping[str, str],
    tolerance: float | None = None,
) -> tuple[OperatingPoint, list[str]]:
    """Fit links and the model of false alarms on labelled tracklets.

    Args:
        point: The operating point of the weights.
        labelled: Tracklets with their true polyps, null for false alarms.
        embeddings: Their vectors.
        keep: Share of the polyps that the threshold of false alarms must keep; None to leave the
            model of false alarms unchanged.
        source: See `find_operating_point`.
        polyps: See `find_operating_point`.
        patients: Patient of each procedure.
        tolerance: Probability from which a link lowers the cost of a partition; None for that of
            the operating point.

    Returns:
        The new operating point, and warnings.

    Raises:
        PolyplinkError: If no tracklet has a known polyp.
    """
    table = labelled.tracklets
    if table.is_empty():
        raise PolyplinkError(
            "no tracklet is long enough to calibrate on",
            "give other procedures, or --min-length, --max-gap or --min-seconds",
        )
    if not table["polyp_id"].count():
        raise PolyplinkError("no tracklet has a known polyp", UNLABELLED)
    warnings: list[str] = []
    # Links are fitted on the tracklets that are linked in other procedures: those that a model of
    # false alarms keeps which was not fitted on them.
    if keep is None:
        to_link = screen(labelled, embeddings, point.for_purpose("count")).prepared
    else:
        try:
            model, crossed = fit_alarms(
                tracklet_features(labelled),
                unit_rows(vectors_of(labelled, embeddings)),
                table["polyp_id"].to_list(),
                [patients[name] for name in table["procedure_id"]],
                keep,
                procedures=table["procedure_id"].to_list(),
                material=None if source is None else source.material,
            )
        except NotFitted as error:
            warnings.append(f"false alarms are not filtered: {error}")
            point, to_link = replace(point, alarms=None), labelled
        else:
            # NaN, of an annotated tracklet, shows a polyp.
            shows_polyp = pl.Series(~(crossed < model.threshold))
            point = replace(point, alarms=model)
            to_link = replace(labelled, tracklets=table.filter(shows_polyp))
    fitted = find_operating_point(
        by_procedure(to_link, embeddings),
        source,
        polyps,
        tolerance=point.tolerance if tolerance is None else tolerance,
        patients=patients,
        settings=labelled.settings,
    )
    if fitted.links is None:
        warnings.append(f"links are not fitted, those of the weights stay: {fitted.origin}")
        here = Message("origin.here", {"why": fitted.origin})
        return replace(point, origin=f"{point.origin}; {here}"), warnings
    fitted = replace(fitted, alarms=point.alarms, size=point.size, adenoma=point.adenoma)
    return fitted, warnings


def fit_probes(
    point: OperatingPoint, data: DataSet, labelled: Prepared, embeddings: Embeddings
) -> tuple[OperatingPoint, list[str], list[str]]:
    """Fit probes of size and histology where these are known.

    Args:
        point: The operating point; its probes are kept if sizes or histology are not known.
        data: The data set with size, histology and patient of the polyps.
        labelled: Tracklets with their true polyps.
        embeddings: Their vectors.

    Returns:
        The new operating point, a sentence on the data of each fitted probe, and the reasons why a
        probe could not be fitted.
    """
    # The mean vector of each polyp.
    of_polyps = (
        labelled.tracklets.select("procedure_id", "polyp_id").with_row_index("row").drop_nulls()
    )
    group = pl.struct("procedure_id", "polyp_id").rank("dense").cast(pl.Int64) - 1
    of_polyps = of_polyps.with_columns(group=group)
    units = mean_units(
        vectors_of(labelled, embeddings)[of_polyps["row"].to_numpy()], of_polyps["group"].to_numpy()
    )

    # Its size and histology, as far as they are known.
    try:
        adenomas, missing = data.adenoma_labels(), list[str]()
    except PolyplinkError as error:  # the adenoma map lacks a term of the data set
        adenomas = pl.repeat(None, data.polyps.height, dtype=pl.Int8, eager=True)
        missing = [f"histology is not reported: {error}"]
    table = (
        data.polyps.select("procedure_id", "polyp_id", "size_mm", adenoma=adenomas)
        .join(of_polyps.unique("group"), on=["procedure_id", "polyp_id"])
        .join(data.procedures.select("procedure_id", "dataset"), on="procedure_id")
        .with_columns(patient=pl.col("procedure_id").replace_strict(data.patients))
        .sort("group")
    )

    # A probe of each.
    simulated = any(map(is_simulated, table["dataset"]))
    probes = {"size": point.size, "adenoma": point.adenoma}
    fitted = []
    for column, name, title, fit in (
        ("size_mm", "size", "size", fit_size),
        ("adenoma", "adenoma", "histology", fit_adenoma),
    ):
        labelled_rows = table.drop_nulls(column)
        if labelled_rows.is_empty():
            continue
        values, patients = labelled_rows[column].to_list(), labelled_rows["patient"].to_list()
        of_rows = units[labelled_rows["group"].to_numpy()]
        try:
            probe = fit(of_rows, values, patients, simulated=simulated)
        except NotFitted as error:
            missing.append(f"{title} is not reported: {error}")
            continue
        probes[name] = probe
        fitted.append(probe.origin + ("; simulated polyps among them" if simulated else ""))
    return replace(point, size=probes["size"], adenoma=probes["adenoma"]), fitted, missing
