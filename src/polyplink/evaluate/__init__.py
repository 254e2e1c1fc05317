"""Evaluation of vectors: retrieval, re-identification, counting and tracking, with intervals."""

from polyplink.evaluate.choosing import (
    Choice,
    CountingFigures,
    Fold,
    Summary,
    apply_choice,
    choose,
    choose_elsewhere,
    leave_one_out,
    summarise,
)
from polyplink.evaluate.counting import ProcedureCounts, count_procedure
from polyplink.evaluate.counting_task import Clinic, ClinicRow
from polyplink.evaluate.evaluation import (
    TASKS,
    EncoderFigures,
    Evaluation,
    EvaluationSettings,
    EvaluationTables,
    Facts,
    evaluate_embeddings,
    evaluate_with_tables,
    nothing_evaluated,
)
from polyplink.evaluate.hota import TrackingCounts, score_tracks, tracking_figures
from polyplink.evaluate.intervals import (
    Figure,
    Resampled,
    draw_weights,
    no_different,
    percentile_interval,
    resampled_mean,
)
from polyplink.evaluate.reid import (
    Reid,
    ReidRow,
    auroc_aupr,
    reid_measures,
    reidentify,
    resample_reid,
)
from polyplink.evaluate.retrieval import (
    Retrieval,
    RetrievalFigures,
    RetrievalRow,
    retrieval_measures,
    retrieve,
)
from polyplink.evaluate.samples import BoxTracks, Samples, TrackletBoxes
from polyplink.evaluate.tracking import TrackingTruth

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
    "ProcedureCounts",
    "Reid",
    "ReidRow",
    "Resampled",
    "Retrieval",
    "RetrievalFigures",
    "RetrievalRow",
    "Samples",
    "Summary",
    "TrackingCounts",
    "TrackingTruth",
    "TrackletBoxes",
    "apply_choice",
    "auroc_aupr",
    "choose",
    "choose_elsewhere",
    "count_procedure",
    "draw_weights",
    "evaluate_embeddings",
    "evaluate_with_tables",
    "leave_one_out",
    "no_different",
    "nothing_evaluated",
    "percentile_interval",
    "reid_measures",
    "reidentify",
    "resample_reid",
    "resampled_mean",
    "retrieval_measures",
    "retrieve",
    "score_tracks",
    "summarise",
    "tracking_figures",
]
