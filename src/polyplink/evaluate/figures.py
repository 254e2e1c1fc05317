"""What each task found, beside its figures (see `measures`), ready for a JSON file.

Every result is a dataclass of plain values, None where a figure is undefined, so that
`polyplink.core.artefacts.write_json` writes it as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from polyplink.associate.clusterers import Setting
from polyplink.associate.similarity import Reals
from polyplink.evaluate.choosing import (
    Choice,
    Fold,
    Summary,
    apply_choice,
    choose,
    choose_elsewhere,
    leave_one_out,
    summarise,
)
from polyplink.evaluate.counting import ProcedureCounts
from polyplink.evaluate.reid import reidentify
from polyplink.evaluate.samples import Samples


@dataclass(frozen=True)
class ReidRow:
    """Re-identification among one procedure's pairs; None without pairs of both kinds.

    Attributes:
        procedure: Its name.
        positives: Its pairs of one polyp.
        negatives: Its pairs of two polyps.
        auroc: Over those pairs.
        aupr: Over those pairs.
    """

    procedure: str
    positives: int
    negatives: int
    auroc: float | None
    aupr: float | None


@dataclass(frozen=True)
class CountingFigures:
    """Counting with one clusterer.

    Attributes:
        folds: One per procedure, its setting chosen on the others, or on those named for it;
            empty with one procedure.
        settings: The setting of each fold.
        summary: Means over the folds; None with one procedure.
        chosen: The choice on all procedures: the operating point to use elsewhere.
        setting: Its setting.
        as_chosen: Means under the operating point, on the procedures it was chosen on: optimistic.
    """

    folds: tuple[Fold, ...]
    settings: tuple[Setting, ...]
    summary: Summary | None
    chosen: Choice
    setting: Setting
    as_chosen: Summary


def reid_rows(unit: Reals, samples: Samples) -> tuple[ReidRow, ...]:
    """Re-identification within each procedure, which is what counting rests on.

    Args:
        unit: Embeddings (n, d) of length 1.
        samples: Whose they are.
    """
    rows = []
    for place, name in enumerate(samples.procedures):
        part, own = samples.of_procedure(place)
        found = reidentify(unit[own], part)
        rows.append(ReidRow(name, found.positives, found.negatives, found.auroc, found.aupr))
    return tuple(rows)


def counting_figures(
    counts: Sequence[ProcedureCounts],
    settings: Sequence[Setting],
    chosen_on: Sequence[str] = (),
) -> CountingFigures:
    """Counting by leave-one-out or with a setting chosen elsewhere, and the operating point.

    Args:
        counts: One per procedure, under the settings.
        settings: The settings, in the order of the counts.
        chosen_on: Procedures to choose on, the others being counted; none: leave one out.

    Raises:
        PolyplinkError: If there is no procedure or no setting.
    """
    if chosen_on:
        counts_for_choice = [c for c in counts if c.procedure in chosen_on]
        folds = choose_elsewhere(counts, chosen_on)
    else:
        counts_for_choice = list(counts)
        folds = leave_one_out(counts) if len(counts) > 1 else ()
    chosen = choose(counts_for_choice)
    return CountingFigures(
        folds=folds,
        settings=tuple(settings[fold.choice.row] for fold in folds),
        summary=summarise(folds) if folds else None,
        chosen=chosen,
        setting=settings[chosen.row],
        as_chosen=summarise([apply_choice(c, chosen) for c in counts_for_choice]),
    )
