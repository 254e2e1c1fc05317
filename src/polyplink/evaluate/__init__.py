"""Retrieval, re-identification and counting, with intervals over procedures."""

from polyplink.evaluate.asked import TASKS, EvaluationSettings, Facts
from polyplink.evaluate.boxes import BoxTracks, TrackletBoxes
from polyplink.evaluate.choosing import (
    Choice,
    Fold,
    Summary,
    apply_choice,
    choose,
    choose_elsewhere,
    leave_one_out,
    summarise,
)
from polyplink.evaluate.clinic import Clinic, ClinicRow
from polyplink.evaluate.counting import ProcedureCounts, count_procedure
from polyplink.evaluate.figures import (
    CountingFigures,
    ReidRow,
    counting_figures,
    reid_rows,
)
from polyplink.evaluate.intervals import (
    Figure,
    Resampled,
    draw_weights,
    percentile_interval,
    resample_reid,
    resampled_mean,
)
from polyplink.evaluate.measures import (
    Measures,
    counting_measures,
    reid_measures,
)
from polyplink.evaluate.pair_counts import PairCounts
from polyplink.evaluate.reid import Reid, auroc_aupr, reidentify
from polyplink.evaluate.retrieval import (
    Retrieval,
    RetrievalFigures,
    RetrievalRow,
    retrieval_figures,
    retrieval_measures,
    retrieve,
)
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.tasks import (
    EncoderFigures,
    Evaluation,
    EvaluationTables,
    evaluate_embeddings,
    evaluate_with_tables,
    nothing_evaluated,
)

__all__ = [
    "TASKS",
    "BoxTracks",
    "Choice",
    "Clinic",
    "ClinicRow",
    "CountingFigures",
    "EncoderFigures",
    "Evaluation",
    "EvaluationSettings",
    "EvaluationTables",
    "Facts",
    "Figure",
    "Fold",
    "Measures",
    "PairCounts",
    "ProcedureCounts",
    "Reid",
    "ReidRow",
    "Resampled",
    "Retrieval",
    "RetrievalFigures",
    "RetrievalRow",
    "Samples",
    "Summary",
    "TrackletBoxes",
    "apply_choice",
    "auroc_aupr",
    "choose",
    "choose_elsewhere",
    "count_procedure",
    "counting_figures",
    "counting_measures",
    "draw_weights",
    "evaluate_embeddings",
    "evaluate_with_tables",
    "leave_one_out",
    "nothing_evaluated",
    "percentile_interval",
    "reid_measures",
    "reid_rows",
    "reidentify",
    "resample_reid",
    "resampled_mean",
    "retrieval_figures",
    "retrieval_measures",
    "retrieve",
    "summarise",
]
