"""From vectors to identities: the operating point, every procedure linked at it, and their report.

The operating point is the model of links that a count uses, the price of a polyp for each purpose,
how far the price is varied for the interval of a count, and a model of the detector's false alarms.
It is found on the labelled procedures of a training run by cross-fitting, or by `calibrate`, and is
stored in the weights.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from polyplink.associate import (
    PRICES,
    AlarmModel,
    Calibration,
    Identities,
    LearnedLinks,
    OperatingPoint,
    Reading,
    Views,
    cross_probabilities,
    fit_links,
    fit_unlabelled,
    identify,
    link_terms,
    partition,
    tracklet_features,
    unit_rows,
    unlabelled_price,
    untuned,
)
from polyplink.core.artefacts import content_key, machine, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import many
from polyplink.counting import Cover, Coverage, fit_interval
from polyplink.data import SIMULATED, BoxSource, DataSet, read_data
from polyplink.encoders import Embeddings, weights_path
from polyplink.encoders.encode import Encoded
from polyplink.evaluate import Purpose, choose, count_procedure, match_tracklets
from polyplink.report import Comparison, Procedure, Report, Tracklet
from polyplink.report.formats import PURPOSES, VISUAL, reading_text
from polyplink.tracklets import Prepared, box_rows, fill_gaps, numbers_of_boxes
from polyplink.tracklets.build import seconds


@dataclass(frozen=True)
class ProcedureTracklets:
    """One procedure's tracklets, ready to be linked.

    Attributes:
        procedure_id: Its name.
        table: Its n rows of the tracklets table.
        positions: First frames relative to the procedure's annotated span (n,), in [0, 1].
        views: Their vectors and times, for learned links.
    """

    procedure_id: str
    table: pl.DataFrame
    positions: np.ndarray
    views: Views

    @property
    def polyps(self) -> list[str | None]:
        """True polyp of every tracklet, None where unknown."""
        return self.table["polyp_id"].to_list()


def by_procedure(prepared: Prepared, embeddings: Embeddings) -> list[ProcedureTracklets]:
    """Join tracklets and vectors, and group them by procedure; empty procedures are left out.

    Args:
        prepared: The tracklets.
        embeddings: Vectors of (at least) these tracklets, in any order.

    Raises:
        PolyplinkError: If a tracklet has no vector.
    """
    tracklets, vectors = prepared.tracklets, vectors_of(prepared, embeddings)
    found = []
    for procedure_id in prepared.procedures:
        own = tracklets["procedure_id"] == procedure_id
        table = tracklets.filter(own)
        if table.is_empty():
            continue
        rows = vectors[own.to_numpy()]
        views = Views(rows, *seconds(table, prepared.data.procedures).T)
        found.append(ProcedureTracklets(procedure_id, table, table["position"].to_numpy(), views))
    return found


def vectors_of(prepared: Prepared, embeddings: Embeddings) -> np.ndarray:
    """The vectors (t, d) of tracklets, in their order.

    Raises:
        PolyplinkError: If a tracklet has none.
    """
    row = {name: i for i, name in enumerate(embeddings.tracklet_ids)}
    names = prepared.tracklets["tracklet_id"].to_list()
    missing = [name for name in names if name not in row]
    if missing:
        raise PolyplinkError(f"tracklet {missing[0]} has no vector", "embed the data set again")
    vectors: np.ndarray = embeddings.vectors[[row[name] for name in names]]
    return vectors


def annotated_boxes(truth: Path, procedures: Sequence[str]) -> dict[str, pl.DataFrame]:
    """The boxes of procedures in a data folder of annotated ones.

    Raises:
        PolyplinkError: If a procedure is not there.
    """
    known = read_data(truth)
    there = set(known.procedures["procedure_id"])
    strange = [name for name in procedures if name not in there]
    PolyplinkError.unless(
        not strange,
        f"{truth} has no procedure {next(iter(strange), '')!r}; its procedures are "
        f"{', '.join(sorted(there)[:3])}{', ...' if len(there) > 3 else ''}",
        "give --truth the annotations of the same recordings, under the same procedure ids "
        "(`polyplink doctor DATA` lists those of a data folder)",
    )
    return {name: known.detections.filter(procedure_id=name) for name in procedures}


def with_truth(prepared: Prepared, truth: Path) -> Prepared:
    """Tracklets of a detector with the polyp that each shows, null for a false alarm.

    Args:
        prepared: The tracklets.
        truth: Data folder with annotated boxes of the same procedures.

    Raises:
        PolyplinkError: If a procedure is not annotated there.
    """
    known = annotated_boxes(truth, prepared.procedures)
    rows, tracklet = box_rows(prepared.tracklets)
    boxes = prepared.detections[rows].with_columns(tracklet=pl.Series(tracklet))
    shown = [match_tracklets(known[name], boxes.filter(procedure_id=name)) for name in known]
    polyps = pl.concat(shown).sort("tracklet")["polyp_id"]
    return replace(prepared, tracklets=prepared.tracklets.with_columns(polyp_id=polyps))


def true_counts(data: DataSet, procedures: Sequence[str], *, every: bool) -> dict[str, int]:
    """True number of polyps of procedures, those without a tracklet included.

    Args:
        data: Where they are annotated.
        procedures: Their ids.
        every: Whether all of them are annotated; otherwise those without a polyp are left out,
            because nobody may have looked.
    """
    known = pl.concat(
        [
            data.polyps.select("procedure_id", "polyp_id"),
            data.detections.select("procedure_id", "polyp_id").drop_nulls(),
        ]
    )
    found = dict(known.unique().group_by("procedure_id").len().iter_rows())
    return {name: found.get(name, 0) for name in procedures if every or name in found}


def with_pseudo_labels(prepared: Prepared, encoded: Encoded) -> Prepared:
    """Tracklets with pseudo-labels: the polyps that links without labels find, not known ones.

    What a second encoder can be trained on where nobody has annotated polyps: clusters as labels
    (DeepCluster, Caron et al. 2018), here of links that know the sequence of views.

    Args:
        prepared: The tracklets.
        encoded: Vectors of the same tracklets by one encoder.

    Raises:
        PolyplinkError: If the encoder is made for other tracklets, or no links can be fitted.
    """
    ids = "tracklet_id"
    name, embeddings = next(iter(encoded.embeddings.items()))
    PolyplinkError.unless(
        encoded.prepared.tracklets[ids].to_list() == prepared.tracklets[ids].to_list(),
        f"{name} is made for tracklets of other settings than the recipe",
        "give those of its training with --min-length, --max-gap and --min-iou",
    )
    procedures = by_procedure(encoded.prepared, embeddings)
    views = [one.views for one in procedures]
    several = [each for each in views if len(each.start) > 1]
    model, price = fit_unlabelled(several), unlabelled_price(several)
    if isinstance(model, str):
        raise PolyplinkError(f"{name} finds no polyps: {model}", "give more procedures")
    labels = [partition(model.probability(each), [price])[0] for each in views]
    found = [
        one.table.select(ids, polyp_id=pl.lit(one.procedure_id + "/") + pl.Series(own).cast(str))
        for one, own in zip(procedures, labels, strict=True)
    ]
    tracklets = prepared.tracklets.drop("polyp_id").join(
        pl.concat(found), on=ids, how="left", maintain_order="left"
    )
    ends = pl.col("first_frame").min(), pl.col("last_frame").max()
    spans = tracklets.group_by("procedure_id", "polyp_id").agg(*ends).sort(pl.all())
    return replace(
        prepared,
        tracklets=tracklets.select(prepared.tracklets.columns),
        spans=replace(prepared.spans, polyps=spans),
        key=content_key(prepared.key, tracklets["polyp_id"].to_list()),
    )


@dataclass(frozen=True)
class Screened:
    """Tracklets of a detector, without those that are taken for false alarms.

    Attributes:
        prepared: The tracklets to link. Their column `shows_polyp` is the probability that they
            show a polyp, null where it is not known.
        alarms: The rows of the others.
        unscreened: Tracklets of a detector whose probability is not known.
    """

    prepared: Prepared
    alarms: pl.DataFrame
    unscreened: int


def screen(
    prepared: Prepared, embeddings: Embeddings, model: AlarmModel | None, *, drop: bool = True
) -> Screened:
    """Separate false alarms from tracklets that show a polyp.

    Annotated tracklets (with a known polyp, or with boxes without scores) are never false alarms.

    Args:
        prepared: The tracklets.
        embeddings: Vectors of (at least) these tracklets.
        model: Gives the probabilities; None to separate nothing.
        drop: Whether tracklets below the model's threshold are separated.

    Raises:
        PolyplinkError: If a tracklet has no vector, or the vectors are not those of the model.
    """
    features = tracklet_features(prepared)
    detected = features.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    table = prepared.tracklets.with_columns(shows_polyp=pl.lit(None, pl.Float64))
    if model is None or not detected.any():
        return Screened(replace(prepared, tracklets=table), table.clear(), int(detected.sum()))
    chance = model.probability(features, unit_rows(vectors_of(prepared, embeddings)))
    table = table.with_columns(shows_polyp=pl.Series(chance).fill_nan(None))
    alarm = (pl.col("shows_polyp") < model.threshold).fill_null(False) & drop
    return Screened(replace(prepared, tracklets=table.filter(~alarm)), table.filter(alarm), 0)


def find_operating_point(
    procedures: Sequence[ProcedureTracklets],
    source: BoxSource | None = None,
    polyps: Mapping[str, int] | None = None,
) -> OperatingPoint:
    """Fit the links on labelled procedures, and choose prices by cross-fitting.

    Every procedure is partitioned under all prices with the probabilities of a model that did not
    see it; on these partitions a price is chosen for each purpose, and the interval that holds the
    true number in 90 % of the procedures (see `fit_interval`). The model that is kept is fitted on
    all of them.

    Args:
        procedures: Those without labels are left out; if none has labels, links are fitted on the
            sequence of views, and nothing is tuned.
        source: Where their boxes come from, for the record; None where they are of several sources.
        polyps: True number of polyps of each procedure that is annotated, those without a tracklet
            included; by default the number of polyps with a tracklet.
    """
    labelled = [one for one in procedures if any(polyp is not None for polyp in one.polyps)]
    if not labelled:
        several = [one.views for one in procedures if len(one.polyps) > 1]
        guessed = fit_unlabelled(several)
        if isinstance(guessed, str):
            return untuned(f"no procedure has known polyps, and {guessed}")
        origin = (
            f"not tuned: no procedure has known polyps; links fitted without labels on "
            f"{len(several)} procedures, at a price of a polyp that is right on simulated ones"
        )
        return OperatingPoint(LearnedLinks(unlabelled_price(several)), guessed, origin)
    given = [(one.views, one.polyps) for one in labelled]
    pairs = [link_terms(each) for each in given]
    crossed, model = cross_probabilities(given, pairs), fit_links(pairs)
    if isinstance(crossed, str) or isinstance(model, str):
        return untuned(str(model if isinstance(model, str) else crossed))
    counts = [
        count_procedure(partition(P, PRICES), one.polyps, one.procedure_id)
        for P, one in zip(crossed, labelled, strict=True)
    ]
    chosen = {purpose: choose(counts, purpose=purpose) for purpose in get_args(Purpose)}
    prices = {purpose: PRICES[choice.row] for purpose, choice in chosen.items()}
    off = np.abs([c.clusters[chosen["count"].row] - c.polyps for c in counts])
    origin = (
        f"links fitted on {model.pairs} pairs of tracklets of {many(len(labelled), 'procedure')}; "
        f"cross-fitted there: count off by {off.mean():.2f} polyps on average, right in "
        f"{100 * (off == 0).mean():.0f} %"
    )
    known = polyps or {c.procedure: c.polyps for c in counts}
    trials = list(zip(labelled, crossed, strict=True))
    # Procedures of false alarms alone have no part in the model: it has not seen them.
    alarms = [one for one in procedures if all(polyp is None for polyp in one.polyps)]
    trials += [(one, model.probability(one.views)) for one in alarms]
    trials = [(one, P) for one, P in trials if one.procedure_id in known]
    true = [known[one.procedure_id] for one, _ in trials]
    interval = fit_interval([P for _, P in trials], true, prices["count"])
    setting, error = LearnedLinks(prices["count"]), float(off.mean())
    calibration = None
    if source is not None:
        calibration = Calibration(
            source.boxes, source.detector, source.material, procedures=len(trials)
        )
    if interval is not None:
        origin += f"; 90 % intervals hold the true number in {100 * interval.held:.0f} %"
    return OperatingPoint(
        setting,
        model,
        origin,
        prices,
        None if interval is None else interval.spread,
        error=error,
        calibration=calibration,
        margin=0 if interval is None else interval.margin,
        lone=0 if interval is None else interval.lone,
    )


@dataclass(frozen=True)
class Linked:
    """One procedure's tracklets with their identities."""

    tracklets: ProcedureTracklets
    identities: Identities

    def readings(self, point: OperatingPoint) -> list[Reading]:
        """Size and histology of each polyp, where the operating point has probes."""
        return point.read(self.tracklets.views.vectors, self.identities.labels)


def link(tracklets: ProcedureTracklets, point: OperatingPoint) -> Linked:
    """Link a procedure at the operating point."""
    return Linked(tracklets, identify(tracklets.views, tracklets.positions, point))


def link_all(prepared: Prepared, embeddings: Embeddings, point: OperatingPoint) -> list[Linked]:
    """Link every procedure that has tracklets."""
    return [link(one, point) for one in by_procedure(prepared, embeddings)]


def linked_boxes(prepared: Prepared, linked: Sequence[Linked]) -> pl.DataFrame:
    """The boxes of linked tracklets, and interpolated ones in the gaps of each.

    Returns:
        procedure_id, frame, x, y, w, h, score, polyp and tracklet (both from 1 in a procedure), and
        interpolated.
    """
    columns = ("procedure_id", "frame", "x", "y", "w", "h", "score")
    every = prepared.detections.select(
        *columns, polyp=pl.lit(0, pl.Int64), tracklet=pl.lit(0, pl.Int64)
    )
    found = [fill_gaps(every.clear())]
    for one in linked:
        rows, tracklet = box_rows(one.tracklets.table)
        polyp = one.identities.labels.astype(np.int64)[tracklet] + 1
        names = pl.Series("polyp", polyp), pl.Series("tracklet", tracklet + 1)
        found.append(fill_gaps(every[rows].with_columns(*names)))
    return pl.concat(found)


def tracks_of_boxes(prepared: Prepared, linked: Sequence[Linked]) -> pl.DataFrame:
    """Which track took each box of the data set, and which polyp was counted for it.

    Args:
        prepared: All tracklets, false alarms included.
        linked: Those that were counted.

    Returns:
        A row for each of `prepared.data.detections`: track_id (a number of its own for each
        tracklet of all procedures, from 1, in their order) and polyp (from 1 in a procedure); null
        for a box in no tracklet, and polyp for one in a false alarm.
    """
    polyps = {
        name: label + 1
        for one in linked
        for name, label in zip(
            one.tracklets.table["tracklet_id"], one.identities.labels.tolist(), strict=True
        )
    }
    rows, tracklet = box_rows(prepared.tracklets)
    numbers = np.zeros((2, prepared.detections.height), dtype=np.int64)  # 0: none
    of_tracklet = [polyps.get(name, 0) for name in prepared.tracklets["tracklet_id"]]
    numbers[:, rows] = tracklet + 1, np.array(of_tracklet, dtype=np.int64)[tracklet]
    return numbers_of_boxes(prepared.data.detections, prepared.detections, *numbers)


def coverage_of(linked: Sequence[Linked], polyps: Mapping[str, int]) -> Coverage | None:
    """How often intervals hold the true number of polyps; None where none can be judged."""
    rows = [
        (polyps[one.tracklets.procedure_id], *one.identities.interval)
        for one in linked
        if one.identities.interval is not None and one.tracklets.procedure_id in polyps
    ]
    return Coverage.of(rows) if rows else None


def link_messages(point: OperatingPoint, linked: Sequence[Linked]) -> list[Message]:
    """What makes the links of procedures doubtful."""
    found = []
    if point.links is None:
        found.append(Message("no_probabilities", {"why": point.origin}))
    failed = [one.tracklets.procedure_id for one in linked if not one.identities.converged]
    if failed:
        found.append(Message("not_converged", {"names": ", ".join(failed)}))
    return found


def build_report(
    title: str,
    weights: Path,
    encoded: Encoded,
    point: OperatingPoint,
    linked: Sequence[Linked],
    *,
    seconds: Mapping[str, float],
    alarms: pl.DataFrame | None = None,
    comparison: Comparison | None = None,
    notes: tuple[str, ...] = (),
    messages: Sequence[Message] = (),
    cover: Cover | None = None,
) -> Report:
    """The page of a count or an evaluation.

    Args:
        title: Headline.
        weights: As the user gave them; a training history in the same folder is shown.
        encoded: The part and its vectors.
        point: The operating point that it was linked at.
        linked: Its procedures; those without tracklets are missing here and shown as empty.
        seconds: Time per stage.
        alarms: Tracklets that were left out as false alarms, from `screen`.
        comparison: Table of methods, where there is one.
        notes: Notes.
        messages: Warnings.
        cover: Whether intervals are given, and on what grounds.

    Raises:
        PolyplinkError: If the training history is broken.
    """
    prepared, record = encoded.prepared, encoded.first.record
    assert record is not None
    found = {one.tracklets.procedure_id: one for one in linked}
    names = prepared.data.procedures["dataset"].unique().sort().to_list()
    here, seed = machine(), record.recipe.get("seed")
    watched = "loss_bags" if record.origin.get("selected_by") == "bags" else "loss_labels"
    curves = _training_curves(weights_path(weights).parent, watched)
    best = record.origin.get("epoch")
    basis = None if cover is None else cover.basis
    return Report(
        title=title,
        dataset=", ".join(names),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{here['system']}, {here['processor']}, {here['cores']} cores",
        weights=encoded.first.key,
        crops=prepared.key,
        seed=seed if isinstance(seed, int) else None,
        simulated=any(name.startswith(SIMULATED) for name in names),
        procedures=tuple(
            _procedure(name, found.get(name), prepared, point, alarms)
            for name in prepared.procedures
        ),
        comparison=comparison,
        curves=curves,
        best_epoch=int(best) if curves and best is not None else None,
        operating_point=_shown_setting(point),
        settings={name: str(value) for name, value in to_plain(prepared.settings).items()},
        seconds=seconds,
        notes=notes,
        warnings=tuple(map(str, messages)),
        basis="" if basis is None else str(basis),
        ask_below=point.ask_below,
    )


def _shown_setting(point: OperatingPoint) -> dict[str, float | str]:
    """The operating point as the report shows it."""
    setting = point.setting
    if isinstance(setting, LearnedLinks):
        purpose = [name for name, price in point.prices.items() if price == setting.price]
        shown: dict[str, float | str] = {
            "method": "learned links",
            "price of a polyp": round(setting.price, 3),
        }
        shown |= {"chosen for": " and ".join(PURPOSES[name] for name in purpose)} if purpose else {}
        shown |= {} if point.spread is None else {"factor of the interval": round(point.spread, 2)}
    else:
        shown = {
            "method": "temporal affinity propagation",
            "alpha": setting.alpha,
            "gamma": setting.gamma,
            "preference": setting.preference,
            "visual similarity": VISUAL[point.form],
        }
    shown["chosen"] = point.origin
    shown |= {} if point.alarms is None else {"false alarms": point.alarms.origin}
    return shown | ({"probes": "; ".join(p.origin for p in point.probes)} if point.probes else {})


def _procedure(
    procedure_id: str,
    linked: Linked | None,
    prepared: Prepared,
    point: OperatingPoint,
    alarms: pl.DataFrame | None,
) -> Procedure:
    """One procedure as the report shows it; without tracklets it is an empty time line."""
    row: dict[str, Any] = prepared.data.procedures.row(
        by_predicate=pl.col("procedure_id") == procedure_id, named=True
    )
    polyps = prepared.data.polyps
    # Polyps without a tracklet are counted too; where no polyp is known there is no number.
    known = None if polyps.is_empty() else polyps.filter(procedure_id=procedure_id).height

    def shown(one: Mapping[str, Any], predicted: str, score: float) -> Tracklet:
        crops = prepared.crops(procedure_id)
        return Tracklet(
            tracklet_id=one["tracklet_id"],
            first=one["first_frame"],
            last=one["last_frame"],
            predicted=predicted,
            polyp_id=one["polyp_id"],
            sureness=None if np.isnan(score) else float(score),
            crop=np.array(crops[one["crop_first"] + one["n_crops"] // 2]),  # the middle one
            bridged=one["bridged"],
        )

    left = [] if alarms is None else alarms.filter(procedure_id=procedure_id).rows(named=True)
    empty = Procedure(
        procedure_id,
        row["n_frames"],
        (),
        fps=row["fps"],
        n_polyps=known,
        alarms=tuple(shown(one, "", one["shows_polyp"]) for one in left),
    )
    if linked is None:
        return empty
    tracklets = linked.tracklets
    rows = tracklets.table.rows(named=True)
    found, names = linked.identities, linked.identities.names
    of_each = zip(rows, found.labels, found.scores, strict=True)
    return replace(
        empty,
        tracklets=tuple(shown(one, names[label], score) for one, label, score in of_each),
        interval=found.interval,
        readings=dict(zip(names, map(reading_text, linked.readings(point)), strict=True)),
        similarity=found.similarity,
        converged=found.converged,
        uncertain=tuple(doubt for doubt in found.doubts if doubt.close),
    )


def _training_curves(folder: Path, watched: str) -> dict[str, tuple[float, ...]]:
    """Curves of the report from the history.csv of a training run; none without the file."""
    path = folder / "history.csv"
    if not path.is_file():
        return {}
    columns = {"loss": "loss", "validation_loss": watched, "tau": "tau", "purity": "purity"}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        there = [
            name for name in columns if name == "loss" or all(columns[name] in r for r in rows)
        ]
        return {name: tuple(row[columns[name]] for row in rows) for name in there}
    except (KeyError, ValueError, TypeError, csv.Error):
        raise PolyplinkError(
            f"{path} is no history of a training run", "remove it; the report does not need it"
        ) from None
