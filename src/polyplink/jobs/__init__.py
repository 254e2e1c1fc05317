"""Jobs: what a user asks for, made of stages."""

from polyplink.evaluate import TASKS
from polyplink.jobs.counting import Counted, count
from polyplink.jobs.demo import demo
from polyplink.jobs.embedding import Embedded, embed_data
from polyplink.jobs.evaluation import ALL_TASKS, DEFAULT_CLUSTERERS, Evaluated, evaluate
from polyplink.jobs.exporting import Exported, export_encoder
from polyplink.jobs.importing import IMPORTERS, import_data
from polyplink.jobs.progress import Progress
from polyplink.jobs.training import Trained, train

__all__ = [
    "ALL_TASKS",
    "DEFAULT_CLUSTERERS",
    "IMPORTERS",
    "TASKS",
    "Counted",
    "Embedded",
    "Evaluated",
    "Exported",
    "Progress",
    "Trained",
    "count",
    "demo",
    "embed_data",
    "evaluate",
    "export_encoder",
    "import_data",
    "train",
]
