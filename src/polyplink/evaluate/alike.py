"""Which methods are no different from the best: the papers' bold sets, from paired intervals.

The papers print in bold the best result and those with p > 0.05 against it, without naming the
test. Here it is the paired bootstrap: a method stands with the best if the 95 % interval of its
difference to the best includes 0.
"""

from collections.abc import Mapping

from polyplink.evaluate.intervals import Resampled

IDEALS: Mapping[str, float] = {
    "FR": 1.0,
    "FPR": 0.0,
    "count error": 0.0,
    "IDSW": 0.0,
}  # of every other figure, by the last part of its name, the largest value is the best


def distance_to_best(name: str, value: float, ideals: Mapping[str, float] | None = None) -> float:
    """How far a figure is from its ideal; smaller is better.

    Args:
        name: The figure's name ("mAP", "threshold/FR").
        value: What it is.
        ideals: By whole name, ideals that depend on the data ("threshold/PPC").
    """
    ideal = (ideals or {}).get(name, IDEALS.get(name.rsplit("/", 1)[-1]))
    return -value if ideal is None else abs(value - ideal)


def no_different(
    name: str, measures: Mapping[str, Resampled], ideals: Mapping[str, float] | None = None
) -> tuple[str, ...]:
    """The methods to mark: the best one first, then those no different from it.

    Args:
        name: The figure.
        measures: By method, the figure with its resamples, all on the same draws.
        ideals: By whole name, ideals that depend on the data, see `distance_to_best`.

    Returns:
        Names of methods. Empty where fewer than two methods have the figure, or no difference to
        the best has an interval: then nothing is known, and nothing is marked.
    """
    known = {
        method: distance_to_best(name, measure.value, ideals)
        for method, measure in measures.items()
        if measure.value is not None
    }
    if len(known) < 2:
        return ()
    best = min(known, key=lambda method: known[method])
    alike, told = [], False
    for method in known:
        if method == best:
            continue
        gap = measures[method].minus(measures[best])
        told |= gap.low is not None
        if gap.low is not None and gap.high is not None and gap.low <= 0 <= gap.high:
            alike.append(method)
    return (best, *alike) if told else ()
