"""From similarities and times to identities: clustering, grid search, link probabilities."""

from polyplink.associate.affinity import propagate
from polyplink.associate.clusterers import (
    Agglomerative,
    Clustering,
    Dbscan,
    Hdbscan,
    Setting,
    TemporalAP,
    Threshold,
    threshold_components,
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
    combine,
    cosine,
    temporal,
    time_gaps,
    unit_rows,
    visual,
)

__all__ = [
    "CLUSTERERS",
    "Agglomerative",
    "Calibration",
    "Clustering",
    "Clusterings",
    "Dbscan",
    "Doubt",
    "Grid",
    "Hdbscan",
    "Setting",
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
    "temporal",
    "threshold_components",
    "time_gaps",
    "uncertain",
    "unit_rows",
    "visual",
]
