"""From similarities and times to identities: clustering, grid search, link probabilities."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.associate.alarms import AlarmModel, fit_alarms, tracklet_features
    from polyplink.associate.clusterers import (
        Clustering,
        LearnedLinks,
        Setting,
        TemporalAP,
    )
    from polyplink.associate.identities import (
        Constraints,
        Doubt,
        Identities,
        OperatingPoint,
        from_record,
        identify,
        link_scores,
        uncertain,
        untuned,
    )
    from polyplink.associate.links import (
        LinkModel,
        Views,
        cross_probabilities,
        fit_links,
        fit_unlabelled,
        link_terms,
    )
    from polyplink.associate.online import Decision, OnlineLinker, OnlineSettings
    from polyplink.associate.partition import partition, partition_cost
    from polyplink.associate.probes import Probe, Reading, fit_adenoma, fit_size, mean_units
    from polyplink.associate.search import (
        CLUSTERERS,
        PRICES,
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
    "PRICES",
    "AlarmModel",
    "Clustering",
    "Clusterings",
    "Constraints",
    "Decision",
    "Doubt",
    "Grid",
    "Identities",
    "LearnedLinks",
    "LinkModel",
    "OnlineLinker",
    "OnlineSettings",
    "OperatingPoint",
    "Probe",
    "Reading",
    "Setting",
    "TemporalAP",
    "Views",
    "VisualForm",
    "cosine",
    "cross_probabilities",
    "demo_grid",
    "fit_adenoma",
    "fit_alarms",
    "fit_links",
    "fit_size",
    "fit_unlabelled",
    "from_record",
    "identify",
    "link_scores",
    "link_terms",
    "mean_units",
    "paper_grid",
    "partition",
    "partition_cost",
    "search",
    "temporal",
    "time_gaps",
    "tracklet_features",
    "uncertain",
    "unit_rows",
    "untuned",
    "visual",
]

hand_on(__name__)
