"""Small line charts of training, laid out for the template."""

import math
from dataclasses import dataclass

from polyplink.report.formats import MINUS, number
from polyplink.report.model import Training, Values
from polyplink.report.ticks import round_step, ticks

WIDTH, HEIGHT = 340.0, 200.0  # drawing units (pixels at natural size)
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 24.0, 34.0


@dataclass(frozen=True)
class Curve:
    """One line of a chart.

    Attributes:
        name: For the key.
        paths: Points "x,y x,y ..." of each stretch without a gap, drawing units.
        dots: (x, y, hover text) of each value.
    """

    name: str
    paths: list[str]
    dots: list[tuple[float, float, str]]


@dataclass(frozen=True)
class Chart:
    """A chart ready for the template; places in drawing units."""

    title: str
    y_name: str
    caption: str
    curves: list[Curve]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    kept: float | None


def finite(values: Values) -> list[tuple[int, float]]:
    """(epoch, value) of the values that are there."""
    return [(i, v) for i, v in enumerate(values) if v is not None and math.isfinite(v)]


def scale(values: list[float]) -> tuple[float, float]:
    """Ends of an axis that holds all the values: round numbers, at least a little apart."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = round_step(high - low, 4)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def tick_text(value: float, step: float) -> str:
    """A tick with as many digits as its step needs."""
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{abs(value) if value == 0 else value:.{digits}f}".replace("-", MINUS)


def curve(name: str, values: Values, last: int, ends: tuple[float, float]) -> Curve:
    """Place one curve.

    Args:
        name: For the key and the hover texts.
        values: One per epoch; gaps where None or NaN.
        last: Last epoch of the axis, at least 1.
        ends: Lowest and highest value of the axis.
    """
    low, high = ends
    dots: list[tuple[float, float, str]] = []
    paths: list[str] = []
    before = -2
    for epoch, value in finite(values):
        x = LEFT + epoch / last * (WIDTH - LEFT - RIGHT)
        y = TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)
        point = f"{x:.1f},{y:.1f}"
        if epoch == before + 1:
            paths[-1] += f" {point}"
        else:
            paths.append(point)
        before = epoch
        dots.append((x, y, f"{name}, epoch {epoch}: {number(value, 4)}"))
    return Curve(name, paths, dots)


def chart(
    title: str,
    y_name: str,
    caption: str,
    series: dict[str, Values],
    *,
    best_epoch: int | None,
    ends: tuple[float, float] | None = None,
) -> Chart | None:
    """Lay out a chart over the epochs, or None where no series has a value.

    Args:
        title: What is shown.
        y_name: Name and unit of the upright axis.
        caption: One sentence of explanation.
        series: Name to values, one per epoch.
        best_epoch: Epoch to mark as kept, or None.
        ends: Fixed ends of the upright axis, or None to fit the values.
    """
    known = [value for values in series.values() for _, value in finite(values)]
    if not known:
        return None
    low, high = ends or scale(known)
    last = max(1, *(len(values) - 1 for values in series.values()))
    y_values, x_values = ticks(low, high, 5), ticks(0, last, 6)
    step = y_values[1] - y_values[0]
    kept = None
    if best_epoch is not None and best_epoch <= last:
        kept = LEFT + best_epoch / last * (WIDTH - LEFT - RIGHT)
    return Chart(
        title,
        y_name,
        caption,
        [curve(n, values, last, (low, high)) for n, values in series.items() if finite(values)],
        [
            (LEFT + x / last * (WIDTH - LEFT - RIGHT), f"{x:.0f}")
            for x in x_values
            if float(x).is_integer()
        ],
        [
            (TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM), tick_text(y, step))
            for y in y_values
        ],
        kept,
    )


def training_charts(training: Training) -> list[Chart]:
    """Loss, temperature and purity over the epochs; those without a value are left out."""
    best = training.best_epoch
    charts = [
        chart(
            "Loss",
            "loss (nats)",
            "How badly bags are told apart from the rest of the batch; lower is better.",
            {"train": training.loss, "validation": training.validation_loss},
            best_epoch=best,
        ),
        chart(
            "Bag temperature",
            "tau (ranks)",
            "The larger tau, the further in time a bag reaches for its members.",
            {"tau": training.tau},
            best_epoch=best,
        ),
        chart(
            "Bag purity",
            "pure bags (share)",
            "A bag is pure when all its members show the anchor's polyp.",
            {"purity": training.purity},
            best_epoch=best,
            ends=(0.0, 1.0),
        ),
    ]
    return [drawn for drawn in charts if drawn is not None]
