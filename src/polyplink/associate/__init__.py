"""From similarities and times to identities: clustering, grid search, link probabilities."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.associate.alarms import (
        AlarmModel as AlarmModel,
        fit_alarms as fit_alarms,
        tracklet_features as tracklet_features,
    )
    from polyplink.associate.clusterers import (
        Clustering as Clustering,
        LearnedLinks as LearnedLinks,
        Setting as Setting,
        TemporalAP as TemporalAP,
    )
    from polyplink.associate.grid_search import (
        PRICES as PRICES,
        Clusterings as Clusterings,
        Grid as Grid,
        demo_grid as demo_grid,
        paper_grid as paper_grid,
        search as search,
    )
    from polyplink.associate.identities import (
        Calibration as Calibration,
        Constraints as Constraints,
        Doubt as Doubt,
        Identities as Identities,
        OperatingPoint as OperatingPoint,
        from_record as from_record,
        identify as identify,
        link_scores as link_scores,
        uncertain as uncertain,
        untuned as untuned,
    )
    from polyplink.associate.links import (
        LinkModel as LinkModel,
        Views as Views,
        cross_probabilities as cross_probabilities,
        fit_links as fit_links,
        fit_unlabelled as fit_unlabelled,
        link_terms as link_terms,
        unlabelled_price as unlabelled_price,
    )
    from polyplink.associate.online import (
        Decision as Decision,
        OnlineLinker as OnlineLinker,
        OnlineSettings as OnlineSettings,
    )
    from polyplink.associate.partition import (
        partition as partition,
        partition_cost as partition_cost,
    )
    from polyplink.associate.probes import (
        Probe as Probe,
        Reading as Reading,
        fit_adenoma as fit_adenoma,
        fit_size as fit_size,
        mean_units as mean_units,
    )
    from polyplink.associate.similarity import (
        VisualForm as VisualForm,
        cosine as cosine,
        temporal as temporal,
        time_gaps as time_gaps,
        unit_rows as unit_rows,
        visual as visual,
    )
    from polyplink.core.parts import CLUSTERERS as CLUSTERERS

hand_on(__name__)
