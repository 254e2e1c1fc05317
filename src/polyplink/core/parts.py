"""All parts by kind and name, declared as packages declare plugins: NAME = "module:object".

Options, help, completion, tables, docs and tests read the names from here. A new built-in part is
a file with the object, its test, and a line in this file (docs/how-to/plugins.md).
"""

from collections.abc import Mapping
from typing import Any

from polyplink.core.registry import Registry

ENCODERS = Registry[Any](
    "encoder",
    "polyplink.encoders",
    {
        "transformer": "polyplink.encoders.config:EncoderConfig",
        "sfe": "polyplink.encoders.config:SfeConfig",
        "mve": "polyplink.encoders.config:MveConfig",
        "foundation": "polyplink.encoders.config:FoundationConfig",
    },
    needs=("build",),
)
LOSSES = Registry[Any](
    "loss",
    "polyplink.losses",
    {
        "noise_aware": "polyplink.learn.noise_aware:NoiseAwareLoss",
        "supervised": "polyplink.learn.soft_targets:SupervisedLoss",
        "temporally_aware": "polyplink.learn.soft_targets:TemporallyAwareLoss",
        "intra_inter": "polyplink.learn.soft_targets:IntraInterLoss",
        "nt_xent": "polyplink.learn.soft_targets:NtXentLoss",
    },
    needs=("__call__",),
)
BAGS = Registry[Any](
    "bags",
    "polyplink.bags",
    {
        "temporal": "polyplink.learn.temporal_bags:TemporalBags",
        "polyp_views": "polyplink.learn.polyp_views:PolypViews",
        "frame_pairs": "polyplink.learn.pairs:FramePairs",
        "tracklet_parts": "polyplink.learn.pairs:TrackletParts",
        "polyp_parts": "polyplink.learn.pairs:PolypParts",
    },
    needs=("draw", "draw_validation"),
)
TRACKERS = Registry[Any](
    "tracker",
    "polyplink.trackers",
    {"damped": "polyplink.tracklets.tracks:Tracker"},
    needs=("__call__",),
)
FIGURES = Registry[Any](
    "figure",
    "polyplink.figures",
    {
        "curriculum": "polyplink.report.figures:draw_curriculum",
        "similarity": "polyplink.report.figures:draw_similarities",
        "counting": "polyplink.report.figures:draw_counting",
        "clusterers": "polyplink.report.figures:draw_clusterers",
        "recall": "polyplink.report.figures:draw_recall",
        "reid": "polyplink.report.figures:draw_reid",
        "map": "polyplink.report.figures:draw_map",
        "pca": "polyplink.report.figures:draw_pca",
        "targets": "polyplink.report.figures:draw_targets",
        "losses": "polyplink.report.figures:draw_losses",
    },
    needs=("__call__",),
)
CLUSTERERS = Registry[Any](
    "clusterer",
    "polyplink.clusterers",
    {
        "temporal_ap": "polyplink.associate.clusterers:TemporalAP",
        "ap": "polyplink.associate.clusterers:AffinityPropagation",
        "threshold": "polyplink.associate.clusterers:Threshold",
        "dbscan": "polyplink.associate.clusterers:Dbscan",
        "hdbscan": "polyplink.associate.clusterers:Hdbscan",
        "agglomerative": "polyplink.associate.clusterers:Agglomerative",
        "links": "polyplink.associate.clusterers:LearnedLinks",
    },
    needs=("cluster", "grid"),
)
USUAL_CLUSTERERS = ("temporal_ap", "threshold", "links")
"""Clusterers that an evaluation compares by default."""
METRICS = Registry[Any](
    "metric",
    "polyplink.metrics",
    {
        "mAP": "polyplink.evaluate.retrieval:MAP",
        "HR@1": "polyplink.evaluate.retrieval:HR_1",
        "HR@5": "polyplink.evaluate.retrieval:HR_5",
        "mAP (as published)": "polyplink.evaluate.retrieval:PUBLISHED_MAP",
        "AUROC": "polyplink.evaluate.reid:AUROC",
        "AUPR": "polyplink.evaluate.reid:AUPR",
        "AUROC (as published)": "polyplink.evaluate.reid:PUBLISHED_AUROC",
        "AUPR (as published)": "polyplink.evaluate.reid:PUBLISHED_AUPR",
        "FR": "polyplink.evaluate.counting_figures:FR",
        "FPR": "polyplink.evaluate.counting_figures:FPR",
        "precision": "polyplink.evaluate.counting_figures:PRECISION",
        "recall": "polyplink.evaluate.counting_figures:RECALL",
        "count error": "polyplink.evaluate.counting_figures:COUNT_ERROR",
        "exact": "polyplink.evaluate.counting_figures:EXACT",
        "PPC": "polyplink.evaluate.counting_figures:PPC",
        "ADR": "polyplink.evaluate.counting_figures:ADR",
        "FPR as published": "polyplink.evaluate.counting_figures:PUBLISHED_FPR",
        "precision with self": "polyplink.evaluate.counting_figures:PRECISION_WITH_SELF",
        "recall with self": "polyplink.evaluate.counting_figures:RECALL_WITH_SELF",
        "HOTA": "polyplink.evaluate.hota:HOTA",
        "DetA": "polyplink.evaluate.hota:DETA",
        "AssA": "polyplink.evaluate.hota:ASSA",
        "AssPr": "polyplink.evaluate.hota:ASSPR",
        "AssRe": "polyplink.evaluate.hota:ASSRE",
        "LocA": "polyplink.evaluate.hota:LOCA",
        "IDF1": "polyplink.evaluate.hota:IDF1",
        "IDP": "polyplink.evaluate.hota:IDP",
        "IDR": "polyplink.evaluate.hota:IDR",
        "IDSW": "polyplink.evaluate.hota:IDSW",
        "MOTA": "polyplink.evaluate.hota:MOTA",
    },
    needs=("value",),
    instance_of="polyplink.evaluate.metric:Metric",
)
LAYOUTS = Registry[Any](
    "layout",
    "polyplink.layouts",
    {
        "yolov5": "polyplink.detect.onnx:decode_yolov5",
        "yolov8": "polyplink.detect.onnx:decode_yolov8",
        "nms": "polyplink.detect.onnx:decode_nms",
        "nms7": "polyplink.detect.onnx:decode_nms7",
        "nms4": "polyplink.detect.onnx:decode_nms4",
        "detr": "polyplink.detect.onnx:decode_detr",
        "detr-sigmoid": "polyplink.detect.onnx:decode_detr_sigmoid",
        "rtdetr": "polyplink.detect.onnx:decode_rtdetr",
        "rtdetr8": "polyplink.detect.onnx:decode_rtdetr8",
        "torchvision": "polyplink.detect.onnx:decode_torchvision",
    },
    needs=("__call__",),
)
FORMATS = Registry[Any](
    "format",
    "polyplink.formats",
    {
        "real-colon": "polyplink.data.sets.real_colon:REAL_COLON",
        "ldpolyp": "polyplink.data.sets.ldpolyp:LDPOLYP",
        "sun": "polyplink.data.sets.sun:SUN",
        "polypsset": "polyplink.data.sets.polypsset:POLYPSSET",
        "polyp-size": "polyplink.data.sets.polyp_size:POLYP_SIZE",
        "coco": "polyplink.data.formats.coco:COCO",
        "mot": "polyplink.data.formats.mot:MOT",
        "yolo": "polyplink.data.formats.yolo:YOLO",
        "cvat": "polyplink.data.formats.cvat:CVAT",
        "csv": "polyplink.data.formats.csv:CSV",
        "masks": "polyplink.data.formats.masks:MASKS",
    },
)
DETECTORS = Registry[Any]("detector", "polyplink.detectors", {}, needs=("__call__",))
"""Functions that detect polyps in an image, see `detect.first_pass.Detector`."""
SIMULATED_DETECTORS = Registry[Any](
    "simulated detector", "polyplink.simulated_detectors", {}, needs=("__call__",)
)
"""Functions that derive the boxes of a detector from annotated procedures."""


def simulated_preset(detector: str | None) -> tuple[str, str] | None:
    """Simulated detector and preset, as in "sim:good"; None for a detector of pictures."""
    name, colon, preset = (detector or "").partition(":")
    return (name, preset) if colon and name in SIMULATED_DETECTORS.names() else None


CROPS = Registry[Any]("crops", "polyplink.crops", {}, needs=("holds", "open"))
"""Sources of crops that are not stored in files, see `tracklets.crops.CropSource`."""
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Count a recording": {
        "run": "polyplink.cli.run:run",
        "detect": "polyplink.cli.detect:detect_polyps",
        "count": "polyplink.cli.count:count",
        "review": "polyplink.cli.review:review",
        "hand-off": "polyplink.cli.hand_off:hand_off_review",
    },
    "Your data": {
        "import": "polyplink.cli.import_data:import_data",
        "merge": "polyplink.cli.merge:merge_data",
        "doctor": "polyplink.cli.doctor:doctor",
        "split": "polyplink.cli.split:split_data",
        "convert": "polyplink.cli.convert:convert_data",
        "prepare": "polyplink.cli.prepare:prepare_data",
    },
    "Train": {
        "train": "polyplink.cli.train:train",
        "calibrate": "polyplink.cli.calibrate:calibrate",
        "learn-from": "polyplink.cli.learn_from:learn_from",
        "train-detector": "polyplink.cli.train_detector:train_detector",
        "recipes list": "polyplink.cli.recipes:list_recipes",
        "recipes show": "polyplink.cli.recipes:show_recipe",
        "weights add": "polyplink.cli.weights_add:add_weights",
        "weights save": "polyplink.cli.weights_save:save_weights_folder",
        "weights adapt": "polyplink.cli.weights_adapt:adapt_weights",
        "weights list": "polyplink.cli.weights_list:list_weights",
        "weights show": "polyplink.cli.weights_show:show_weights",
        "weights cost": "polyplink.cli.weights_cost:cost_weights",
        "models": "polyplink.cli.models:show_models",
    },
    "Evaluate": {
        "evaluate": "polyplink.cli.evaluate:evaluate_weights",
        "evaluate-detector": "polyplink.cli.evaluate_detector:evaluate_detector",
        "probe": "polyplink.cli.probe:probe",
        "figures": "polyplink.cli.figures:draw_figures",
    },
    "Serve": {
        "live": "polyplink.cli.live:live",
        "embed": "polyplink.cli.embed:embed_data",
        "index build": "polyplink.cli.index:build_index",
        "index add": "polyplink.cli.index:add_to_index",
        "search": "polyplink.cli.search:search",
        "export": "polyplink.cli.export:export",
    },
    "Research": {
        "plugins": "polyplink.cli.plugins:list_plugins",
    },
}
"""Verbs as typed, by section of `polyplink --help`; plugins' verbs join the last section."""
VERBS = Registry[Any](
    "verb",
    "polyplink.verbs",
    {k: v for s in SECTIONS.values() for k, v in s.items()},
    needs=("__call__",),
)
"""Functions with annotated parameters, see `cli.command`; "weights add" is `add` of a group."""

REGISTRIES = {
    registry.kind: registry
    for registry in (
        *(ENCODERS, LOSSES, BAGS, CLUSTERERS, METRICS, FIGURES, FORMATS, TRACKERS, LAYOUTS),
        *(DETECTORS, SIMULATED_DETECTORS, CROPS, VERBS),
    )
}
"""Every registry, by its kind."""
