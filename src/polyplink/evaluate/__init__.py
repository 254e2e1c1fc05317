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
    ReidFigures,
    RetrievalFigures,
    RetrievalRow,
    counting_figures,
    reid_figures,
    retrieval_figures,
)
from polyplink.evaluate.intervals import (
    Interval,
    bootstrap_mean,
    draw_weights,
    paired_difference,
    percentile_interval,
    resample_reid,
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
    "PairCounts",
    "ProcedureCounts",
    "Reid",
    "ReidFigures",
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
    "draw_weights",
    "evaluate_embeddings",
    "leave_one_out",
    "paired_difference",
    "percentile_interval",
    "reid_figures",
    "reidentify",
    "resample_reid",
    "retrieval_figures",
    "retrieve",
    "summarise",
]
