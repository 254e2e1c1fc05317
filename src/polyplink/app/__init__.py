"""The verbs of polyplink: one module per verb, and the command line built from their requests.

Every verb is a function of its request, in Python as on the command line:

Example:
    >>> from pathlib import Path
    >>> from polyplink.app import SimulateRequest, simulate
    >>> simulate(SimulateRequest(Path("made"), preset="smoke", write="tables"))  # doctest: +SKIP
"""

from polyplink.app.bench import BenchRequest, bench
from polyplink.app.calibrate import Calibrated, CalibrateRequest, calibrate
from polyplink.app.count import Counted, CountRequest, count
from polyplink.app.data_folder import (
    DoctorRequest,
    ImportRequest,
    MergeRequest,
    PrepareRequest,
    doctor,
    import_data,
    merge_data,
    prepare_data,
)
from polyplink.app.demo import DemoRequest, demo
from polyplink.app.detect import DetectRequest, RunRequest, detect_polyps, run
from polyplink.app.evaluate import Evaluated, EvaluateRequest, evaluate
from polyplink.app.export import EmbedRequest, Exported, ExportRequest, embed_data, export
from polyplink.app.figures import FiguresRequest, draw
from polyplink.app.index import (
    IndexAddRequest,
    IndexBuildRequest,
    SearchRequest,
    add_to_index,
    build_index,
    search,
)
from polyplink.app.live import LiveRequest, live
from polyplink.app.probe import ProbeRequest, probe
from polyplink.app.recipes import RecipeRequest, show_recipe
from polyplink.app.reproduce import ReproduceRequest, reproduce
from polyplink.app.request import Progress, Result
from polyplink.app.review import (
    HandOffRequest,
    Learned,
    LearnFromRequest,
    ReviewRequest,
    hand_off_review,
    learn_from,
    review,
)
from polyplink.app.simulate import SimulateRequest, simulate
from polyplink.app.split import SplitRequest, split_data
from polyplink.app.study import Studied, StudyRequest, study
from polyplink.app.train import Trained, TrainRequest, train
from polyplink.app.train_detector import TrainDetectorRequest, train_detector
from polyplink.app.weights import (
    AdaptRequest,
    AddRequest,
    SaveRequest,
    adapt_weights,
    add_weights,
    list_weights,
    save_weights_folder,
    show_weights,
)

__all__ = [
    "AdaptRequest",
    "AddRequest",
    "BenchRequest",
    "CalibrateRequest",
    "Calibrated",
    "CountRequest",
    "Counted",
    "DemoRequest",
    "DetectRequest",
    "DoctorRequest",
    "EmbedRequest",
    "EvaluateRequest",
    "Evaluated",
    "ExportRequest",
    "Exported",
    "FiguresRequest",
    "HandOffRequest",
    "ImportRequest",
    "IndexAddRequest",
    "IndexBuildRequest",
    "LearnFromRequest",
    "Learned",
    "LiveRequest",
    "MergeRequest",
    "PrepareRequest",
    "ProbeRequest",
    "Progress",
    "RecipeRequest",
    "ReproduceRequest",
    "Result",
    "ReviewRequest",
    "RunRequest",
    "SaveRequest",
    "SearchRequest",
    "SimulateRequest",
    "SplitRequest",
    "Studied",
    "StudyRequest",
    "TrainDetectorRequest",
    "TrainRequest",
    "Trained",
    "adapt_weights",
    "add_to_index",
    "add_weights",
    "bench",
    "build_index",
    "calibrate",
    "count",
    "demo",
    "detect_polyps",
    "doctor",
    "draw",
    "embed_data",
    "evaluate",
    "export",
    "hand_off_review",
    "import_data",
    "learn_from",
    "list_weights",
    "live",
    "merge_data",
    "prepare_data",
    "probe",
    "reproduce",
    "review",
    "run",
    "save_weights_folder",
    "search",
    "show_recipe",
    "show_weights",
    "simulate",
    "split_data",
    "study",
    "train",
    "train_detector",
]
