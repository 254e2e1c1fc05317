"""From similarities and times to identities: clustering, grid search, link probabilities."""

from polyplink.associate.alarms import AlarmModel, fit_alarms, tracklet_features
from polyplink.associate.clusterers import (
    Clustering,
    Setting,
    TemporalAP,
)
from polyplink.associate.links import (
    Calibration,
    Doubt,
    fit_calibration,
    labelled_pairs,
    link_scores,
    uncertain,
)
from polyplink.associate.search import (
    CLUSTERERS,
    Clusterings,
    Grid,
    demo_grid,
    paper_grid,
    search,
)
from polyplink.associate.similarity import (
    VisualForm,
    cosine,
    temporal,
    time_gaps,
    unit_rows,
    visual,
)

__all__ = [
    "CLUSTERERS",
    "AlarmModel",
    "Calibration",
    "Clustering",
    "Clusterings",
    "Doubt",
    "Grid",
    "Setting",
    "TemporalAP",
    "VisualForm",
    "cosine",
    "demo_grid",
    "fit_alarms",
    "fit_calibration",
    "labelled_pairs",
    "link_scores",
    "paper_grid",
    "search",
    "temporal",
    "time_gaps",
    "tracklet_features",
    "uncertain",
    "unit_rows",
    "visual",
]
