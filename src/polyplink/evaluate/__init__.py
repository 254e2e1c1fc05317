"""Evaluation of vectors (retrieval, re-identification, counting, tracking) and of detectors."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.evaluate.chain import (
        ChainRow as ChainRow,
        chain_figures as chain_figures,
        match_tracklets as match_tracklets,
        one_box_a_frame as one_box_a_frame,
        score_procedure as score_procedure,
    )
    from polyplink.evaluate.choosing import Purpose as Purpose, choose as choose
    from polyplink.evaluate.counting import count_procedure as count_procedure
    from polyplink.evaluate.detections import (
        DetectorFigures as DetectorFigures,
        average_precision as average_precision,
        match_detections as match_detections,
        measure_detector as measure_detector,
        score_for_false_boxes as score_for_false_boxes,
    )
    from polyplink.evaluate.evaluation import (
        EncoderFigures as EncoderFigures,
        Evaluation as Evaluation,
        EvaluationSettings as EvaluationSettings,
        evaluate_embeddings as evaluate_embeddings,
    )
    from polyplink.evaluate.hota import (
        TrackingCounts as TrackingCounts,
        score_tracks as score_tracks,
        tracking_figures as tracking_figures,
    )
    from polyplink.evaluate.intervals import (
        Figure as Figure,
        draw_weights as draw_weights,
        no_different as no_different,
    )
    from polyplink.evaluate.metric import TASKS as TASKS, Metric as Metric
    from polyplink.evaluate.reid import (
        Reid as Reid,
        reidentify as reidentify,
        resample_reid as resample_reid,
        roc_and_pr as roc_and_pr,
    )
    from polyplink.evaluate.retrieval import (
        Retrieval as Retrieval,
        retrieval_measures as retrieval_measures,
        retrieve as retrieve,
    )
    from polyplink.evaluate.samples import (
        BoxTracks as BoxTracks,
        Samples as Samples,
        TrackletBoxes as TrackletBoxes,
    )
    from polyplink.evaluate.tracking import TrackingTruth as TrackingTruth

hand_on(__name__)
