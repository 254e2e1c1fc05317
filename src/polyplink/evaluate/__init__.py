"""Evaluation of vectors: retrieval, re-identification, counting and tracking, with intervals."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.evaluate.chain import ChainRow, chain_figures, match_tracklets, score_procedure
    from polyplink.evaluate.choosing import Purpose, choose
    from polyplink.evaluate.counting import count_procedure
    from polyplink.evaluate.evaluation import (
        TASKS,
        EncoderFigures,
        Evaluation,
        EvaluationSettings,
        evaluate_embeddings,
    )
    from polyplink.evaluate.hota import TrackingCounts, score_tracks, tracking_figures
    from polyplink.evaluate.intervals import Figure, draw_weights, no_different
    from polyplink.evaluate.reid import Reid, reidentify, resample_reid, roc_and_pr
    from polyplink.evaluate.retrieval import Retrieval, retrieval_measures, retrieve
    from polyplink.evaluate.samples import BoxTracks, Samples, TrackletBoxes
    from polyplink.evaluate.tracking import TrackingTruth

__all__ = [
    "TASKS",
    "BoxTracks",
    "ChainRow",
    "EncoderFigures",
    "Evaluation",
    "EvaluationSettings",
    "Figure",
    "Purpose",
    "Reid",
    "Retrieval",
    "Samples",
    "TrackingCounts",
    "TrackingTruth",
    "TrackletBoxes",
    "chain_figures",
    "choose",
    "count_procedure",
    "draw_weights",
    "evaluate_embeddings",
    "match_tracklets",
    "no_different",
    "reidentify",
    "resample_reid",
    "retrieval_measures",
    "retrieve",
    "roc_and_pr",
    "score_procedure",
    "score_tracks",
    "tracking_figures",
]

hand_on(__name__)
