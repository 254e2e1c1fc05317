"""Similarities and times to identities: the clusterers, their sweep, and how sure a link is."""

from polyplink.associate.affinity import propagate
from polyplink.associate.links import (
    Calibration,
    CalibrationFit,
    Doubt,
    LabelledPairs,
    fit_calibration,
    labelled_pairs,
    link_scores,
    uncertain,
)
from polyplink.associate.search import search
from polyplink.associate.settings import (
    CLUSTERERS,
    Agglomerative,
    Clustering,
    Dbscan,
    Grid,
    Hdbscan,
    Setting,
    TemporalAP,
    Threshold,
    demo_grid,
    paper_grid,
)
from polyplink.associate.similarity import (
    VisualForm,
    combine,
    cosine,
    temporal,
    time_gaps,
    unit_rows,
    visual,
)
from polyplink.associate.sweep import Sweep, sweep
from polyplink.associate.threshold import threshold_components

__all__ = [
    "CLUSTERERS",
    "Agglomerative",
    "Calibration",
    "CalibrationFit",
    "Clustering",
    "Dbscan",
    "Doubt",
    "Grid",
    "Hdbscan",
    "LabelledPairs",
    "Setting",
    "Sweep",
    "TemporalAP",
    "Threshold",
    "VisualForm",
    "combine",
    "cosine",
    "demo_grid",
    "fit_calibration",
    "labelled_pairs",
    "link_scores",
    "paper_grid",
    "propagate",
    "search",
    "sweep",
    "temporal",
    "threshold_components",
    "time_gaps",
    "uncertain",
    "unit_rows",
    "visual",
]
