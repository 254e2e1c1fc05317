"""From an evaluation to a table of methods by figures, its notes, and a table of procedures."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from polyplink.core.text import many
from polyplink.evaluate import EncoderFigures, Evaluation, EvaluationSettings, no_different
from polyplink.evaluate.probing import PROBES, Probed
from polyplink.evaluate.tracking import MEANS
from polyplink.report import Comparison, Method, Metric
from polyplink.report.formats import CLUSTERERS, PURPOSES, TIMES, VISUAL, figure_text
from polyplink.report.model import Style
from polyplink.report.tables import PROBE_MEANINGS

ProbedByTask = Mapping[str, Mapping[str, Probed]]  # by task, by method, the reference first

# Names of figures, spelled out.
TITLES = {
    "mAP": "mean average precision",
    "HR@1": "hit rate at 1",
    "HR@5": "hit rate at 5",
    "AUROC": "area under the ROC curve",
    "AUPR": "area under the precision-recall curve",
    "FR": "fragmentation rate",
    "FPR": "false positive rate",
    "PPC": "polyps per colonoscopy",
    "ADR": "adenoma detection rate",
    "HOTA": "higher order tracking accuracy",
    "DetA": "detection accuracy",
    "AssA": "association accuracy",
    "AssPr": "association precision",
    "AssRe": "association recall",
    "LocA": "localisation accuracy",
    "IDF1": "identity F1",
    "IDP": "identity precision",
    "IDR": "identity recall",
    "IDSW": "identity switches",
    "MOTA": "multiple object tracking accuracy",
}
_LOO = "setting chosen on other procedures"
_FOLD_COLUMNS = ("clusters", "fr", "fpr", "precision", "recall")

_RETRIEVAL = {
    "mAP": "mean over all queries of how early the views of the same polyp are ranked",
    "HR@1": "share of queries whose most similar view shows the same polyp",
    "HR@5": "share of queries with the same polyp among the five most similar views",
}
# By group: its style, and what every figure means.
_EXACT: tuple[tuple[str, Style, Mapping[str, str]], ...] = (
    ("Retrieval", "honest", _RETRIEVAL),
    (
        "Re-identification",
        "honest",
        {
            "AUROC": "pairs of views of one polyp against pairs of two; 0.5 is chance",
            "AUPR": "average precision over the same pairs",
        },
    ),
    (
        "Retrieval, own procedure left out",
        "honest",
        {
            f"{name} (without own)": f"{says}; other polyps of the query's procedure left out"
            for name, says in _RETRIEVAL.items()
        },
    ),
    (
        "Retrieval and re-identification, as published",
        "published",
        {
            "mAP (as published)": "matches of similarity 0 or below excluded, as in torchmetrics",
            "AUROC (as published)": "after a sigmoid in single precision",
            "AUPR (as published)": "after a sigmoid in single precision",
        },
    ),
)
_COUNTING: Mapping[str, tuple[float, str]] = {  # its ideal, and what it means
    "FR": (1.0, f"clusters over polyps; {_LOO}"),
    "FPR": (0.0, f"pairs of two polyps in one cluster; {_LOO}"),
    "precision": (1.0, "of linked pairs"),
    "recall": (1.0, "of pairs of one polyp"),
    "count error": (
        0.0,
        f"mean difference between the counted and the true number of polyps; {_LOO}",
    ),
    "exact": (1.0, "share of procedures whose number of polyps is right"),
    "PPC": (0.0, "polyps per colonoscopy as counted; the ideal is the true value"),
    "ADR": (
        1.0,
        "share of colonoscopies with a cluster called adenoma; the ideal is the true value",
    ),
}
_WITH_SELF = "as published: pairs counted twice, every tracklet with itself as a true positive"
# By the figure's name: its heading, style, ideal, and what it means.
_COUNTING_PUBLISHED: Mapping[str, tuple[str, Style, float, str]] = {
    "FPR as published": (
        "FPR (as published)",
        "published",
        0.0,
        "mean over all procedures, 0 where there is one polyp",
    ),
    "precision with self": ("precision", "reference", 1.0, _WITH_SELF),
    "recall with self": ("recall", "reference", 1.0, _WITH_SELF),
}
_TRACKING = {
    "HOTA": "detection and association in one",
    "DetA": "true boxes that were detected, and boxes that are true",
    "AssA": "how well boxes of one polyp are kept together and apart from others",
    "AssPr": "of the boxes of a track, those of its polyp",
    "AssRe": "of the boxes of a polyp, those of its track",
    "LocA": "IoU of matched boxes",
    "IDF1": "boxes under the best one-to-one matching of tracks and polyps",
    "IDP": "of the detected boxes",
    "IDR": "of the true boxes",
    "IDSW": "changes of a polyp's track",
    "MOTA": "misses, false alarms and changes of track",
}


def columns(first: EncoderFigures) -> list[Metric]:
    """A column for every figure of an encoder, group by group."""
    found = [
        Metric(name, name, group, 1.0, says, style=style, title=_title(name))
        for group, style, names in _EXACT
        for name, says in names.items()
        if name in first.figures
    ]
    for name in (name for name in {**CLUSTERERS, **first.counting} if name in first.counting):
        group, clinic = f"Counting, {CLUSTERERS.get(name, name)}", first.clinic.get(name)
        true = {} if clinic is None else {"PPC": clinic.ppc, "ADR": clinic.adr}
        for key, (ideal, says) in _COUNTING.items():
            known = true.get(key)
            best = ideal if known is None else known
            found.append(Metric(f"{name}/{key}", key, group, best, says, title=_title(key)))
        group += ", as published"
        found += [
            Metric(f"{name}/{key}", shown, group, ideal, says, style=style, title=_title(key))
            for key, (shown, style, ideal, says) in _COUNTING_PUBLISHED.items()
        ]
    for name in (name for name in {**CLUSTERERS, **first.tracking} if name in first.tracking):
        group, spreads = f"Tracking, {CLUSTERERS.get(name, name)}", first.tracking[name]["spreads"]
        for key, says in _TRACKING.items():
            ideal = 0.0 if key == "IDSW" else 1.0
            meaning = f"{says}; boxes of all procedures together; {_LOO}"
            title = _title(key)
            found.append(Metric(f"tracking/{name}/{key}", key, group, ideal, meaning, title=title))
        group += ", mean over procedures"
        for key in MEANS:
            sd = spreads[key].sd
            spread = "undefined" if sd is None else f"{sd:.3f}"
            meaning = f"{_TRACKING[key]}; standard deviation {spread}"
            title = _title(key)
            found.append(
                Metric(f"tracking/{name}/{key} mean", key, group, 1.0, meaning, title=title)
            )
    return found


def _title(name: str) -> str:
    """The name of a figure spelled out; "" for one that is a word itself."""
    return TITLES.get(name.split(" ", maxsplit=1)[0], "")


def headline(first: EncoderFigures) -> tuple[str, ...]:
    """Keys of the five figures that a reader looks at first, with learned links where there are."""
    counted = "links" if "links" in first.counting else next(iter(first.counting), "")
    tracked = "links" if "links" in first.tracking else next(iter(first.tracking), "")
    keys = ("mAP", "AUROC", f"{counted}/count error", f"{counted}/exact")
    return (*keys, f"tracking/{tracked}/HOTA")


def comparison(evaluation: Evaluation, settings: EvaluationSettings) -> Comparison:
    """Methods in rows, the reference first, and every figure in a column."""
    first = evaluation.encoders[evaluation.reference]
    names = [evaluation.reference]
    names += [name for name in evaluation.encoders if name != evaluation.reference]
    others = "another part" if settings.chosen_on else "the other procedures"
    note = (
        f"Counting and tracking here use settings chosen on {others} for "
        f"{PURPOSES[settings.purpose]}; the counts of each procedure use the setting stored in the "
        "weights, which is made to count: the numbers of polyps may differ."
    )
    return Comparison(
        tuple(columns(first)),
        tuple(
            Method(
                name, evaluation.encoders[name].figures, evaluation.minus_reference.get(name, {})
            )
            for name in names
        ),
        evaluation.no_different if len(names) > 1 else {},
        headline(first),
        note if first.counting or first.tracking else "",
    )


def notes(evaluation: Evaluation, settings: EvaluationSettings) -> tuple[str, ...]:
    """Notes under the table, one sentence each."""
    first = evaluation.encoders[evaluation.reference]
    said = [f"Independent units: {many(evaluation.procedures, 'procedure')}."]
    if first.retrieval is not None:
        found = first.retrieval
        said.append(
            f"Queries: {found['queries']}; {many(found['unmatched'], 'tracklet')} without a match "
            f"and {found['unlabelled']} of unknown polyp left out."
        )
    if first.pairs is not None:
        said.append(f"{many(first.pairs[0], 'pair')} of one polyp and {first.pairs[1]} of two.")
    if first.counting or first.tracking:
        said.append(
            f"Clustered by visual similarity {settings.form}, {VISUAL[settings.form]}; distances "
            f"in time in {TIMES[settings.time]}. Settings chosen for {PURPOSES[settings.purpose]}."
        )
    if first.no_links:
        said.append(f"No learned links: {first.no_links}.")
    if any(not counting.folds for counting in first.counting.values()):
        said.append(
            "No setting can be chosen on other procedures than the one there is: counting and "
            "tracking are undefined; choose it on another part (--choose-on)."
        )
    for name, figures in evaluation.encoders.items():
        said += _counting_notes(name, figures)
    clinic = next(iter(first.clinic.values()), None)
    if clinic is not None:
        known = f"True polyps per colonoscopy (with a tracklet): {clinic.ppc:.2f}."
        if clinic.adr is None:
            said.append(f"{known} No adenoma detection rate: no histology is known.")
        else:
            said.append(
                f"{known} True adenoma detection rate: {clinic.adr:.2f}, adenomas per colonoscopy "
                f"{clinic.apc:.2f}, over {clinic.with_histology} procedures of known histology."
            )
    for name, found in first.tracking.items():
        if rows := found["procedures"]:
            general = sum(row["form"] == "general" for row in rows)
            boxes, split, doubled = (sum(r[c] for r in rows) for c in ("boxes", "split", "doubled"))
            said.append(
                f"Tracking, {name}: {boxes:,} boxes of tracklets; {general} of "
                f"{len(rows)} procedures needed boxes matched one by one; {split} tracklets were "
                "split off a track that was elsewhere in the same frame; "
                f"{doubled} second boxes of a polyp in one frame left out."
            )
    if first.not_counted:
        said.append(f"Not counted, no polyp known: {', '.join(first.not_counted)}.")
    return tuple(said)


def _counting_notes(name: str, figures: EncoderFigures) -> list[str]:
    said = []
    if figures.not_converged > 0:
        said.append(
            f"{name}: one in {round(1 / figures.not_converged):,} clusterings of the search "
            "did not converge."
        )
    for clusterer, counting in figures.counting.items():
        if clusterer == "temporal_ap" and counting.summary:
            alpha = figure_text(counting.summary["alpha"], 4)
            said.append(f"{name}, {clusterer}: mean chosen alpha {alpha} over the folds.")
        rules = [fold["choice"].rule for fold in counting.folds]
        odd = [rule for rule in rules if rule in ("no_false_positive", "one_polyp_each")]
        if odd:
            said.append(
                f"{name}, {clusterer}: in {len(odd)} of {len(counting.folds)} folds no setting "
                f"near FPR 0.05 could be chosen ({', '.join(sorted(set(odd)))})."
            )
        settled = figures.converged[clusterer]
        lost = [f["procedure"] for f, ok in zip(counting.folds, settled, strict=True) if not ok]
        if lost:
            said.append(
                f"{name}, {clusterer}: under the setting chosen for it, the clustering of "
                f"{', '.join(lost)} did not converge."
            )
    return said


def by_procedure(evaluation: Evaluation) -> pl.DataFrame:
    """One row per method and procedure; empty where a figure is undefined there.

    Returns:
        method, procedure, queries, mAP, HR@1, HR@5 (its tracklets as queries among all),
        AUROC, AUPR (its own pairs), polyps, tracklets, adenomas, and for each clusterer its
        clusters, FR, FPR, precision and recall under the setting chosen for the procedure,
        whether that settled, and its tracking figures.
    """
    every = []
    for method, figures in evaluation.encoders.items():
        rows: dict[str, dict[str, Any]] = {}
        for own in figures.retrieval["procedures"] if figures.retrieval is not None else ():
            names = {"queries": "queries", "mAP": "mean_ap", "HR@1": "hr1", "HR@5": "hr5"}
            found = {name: own[key] for name, key in names.items()}
            rows.setdefault(own["procedure"], {}).update(found)
        for pairs in figures.reid:
            found = {"AUROC": pairs["auroc"], "AUPR": pairs["aupr"]}
            rows.setdefault(pairs["procedure"], {}).update(found)
        for name, counting in figures.counting.items():
            for fold, settled in zip(counting.folds, figures.converged[name], strict=True):
                row = rows.setdefault(fold["procedure"], {})
                row |= {"polyps": fold["polyps"], "tracklets": fold["tracklets"]}
                row |= {f"{name} {c}": fold[c] for c in _FOLD_COLUMNS}
                row[f"{name} converged"] = settled
            clinic = figures.clinic.get(name)
            for patient in clinic.rows if clinic is not None else ():
                row = rows[patient["procedure"]]
                row["adenomas"] = patient["adenomas"]
                row[f"{name} adenomas"] = patient["adenomas_counted"]
        for name, tracking in figures.tracking.items():
            for track in tracking["procedures"]:
                row = rows.setdefault(track["procedure"], {})
                row |= {f"{name} {figure}": value for figure, value in track["figures"].items()}
                row |= {f"{name} {column}": track[column] for column in ("form", "tracks")}
        every += [{"method": method, "procedure": name} | row for name, row in rows.items()]
    return pl.DataFrame(every, infer_schema_length=None)


def with_probes(table: Comparison, probed: ProbedByTask) -> Comparison:
    """The table of methods with the figures of probes as further columns.

    Args:
        table: All methods.
        probed: By task and method, from `probing.probe_encoders`.
    """
    metrics, bold = list(table.metrics), dict(table.bold)
    methods = {one.name: (dict(one.figures), dict(one.differences)) for one in table.methods}
    reference = table.methods[0].name
    for task, found in probed.items():
        group = f"{task.capitalize()}, probe: {PROBES[task].positive}"
        for name, says in PROBE_MEANINGS.items():
            key, measures = f"{task}/{name}", {k: p.result.measures[name] for k, p in found.items()}
            paper = "; the paper's figure" if name == PROBES[task].figure else ""
            meaning = f"{says}; mean over seeds{paper}"
            metrics.append(Metric(key, name, group, 1.0, meaning, "polyps"))
            for method, (figures, differences) in methods.items():
                figures[key] = found[method].result.figures[name]
                if method != reference:
                    differences[key] = measures[method].minus(measures[reference])
            if len(methods) > 1:
                bold[key] = no_different(name, measures)
    rows = tuple(Method(name, *both) for name, both in methods.items())
    return replace(table, metrics=tuple(metrics), methods=rows, bold=bold)


def probe_notes(probed: ProbedByTask) -> tuple[str, ...]:
    """Notes on the figures of probes, one sentence per task."""
    said = []
    for task, found in probed.items():
        one = next(iter(found.values()))
        said.append(
            f"{task.capitalize()}: probes trained on {sum(one.trained_polyps)} polyps and tested "
            f"on {sum(one.result.polyps)} of other patients, {one.result.polyps[1]} of them "
            f"{PROBES[task].positive}; {one.left_out} labelled polyps without a whole fragment "
            "left out; the independent units are the test polyps."
        )
    return tuple(said)
