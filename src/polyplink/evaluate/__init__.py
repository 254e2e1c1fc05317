"""Retrieval, re-identification and counting, with intervals over procedures."""

from polyplink.evaluate.choosing import (
    Choice,
    Fold,
    Spread,
    Summary,
    apply_choice,
    choose,
    leave_one_out,
    summarise,
)
from polyplink.evaluate.counting import ProcedureCounts, count_procedure
from polyplink.evaluate.figures import (
    CountingFigures,
    ReidRow,
    RetrievalFigures,
    RetrievalRow,
    counting_figures,
    reid_rows,
    retrieval_figures,
)
from polyplink.evaluate.intervals import (
    Interval,
    Resampled,
    bootstrap_mean,
    draw_weights,
    percentile_interval,
    resample_reid,
    resampled_mean,
)
from polyplink.evaluate.measures import (
    Measures,
    counting_measures,
    reid_measures,
    retrieval_measures,
)
from polyplink.evaluate.reid import PairCounts, Reid, auroc_aupr, reidentify
from polyplink.evaluate.retrieval import Retrieval, retrieve
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.tasks import (
    EncoderFigures,
    Evaluation,
    EvaluationSettings,
    evaluate_embeddings,
)

__all__ = [
    "Choice",
    "CountingFigures",
    "EncoderFigures",
    "Evaluation",
    "EvaluationSettings",
    "Fold",
    "Interval",
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
    "Spread",
    "Summary",
    "apply_choice",
    "auroc_aupr",
    "bootstrap_mean",
    "choose",
    "count_procedure",
    "counting_figures",
    "counting_measures",
    "draw_weights",
    "evaluate_embeddings",
    "leave_one_out",
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
