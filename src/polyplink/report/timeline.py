"""The time line of a procedure: counted polyps above, true ones beneath."""

from collections.abc import Callable
from dataclasses import dataclass

from polyplink.report.formats import moment, number
from polyplink.report.matching import Matching, Polyp
from polyplink.report.model import Procedure, Tracklet
from polyplink.report.packing import LABEL, LEVELS, Label, lanes, place_labels
from polyplink.report.palette import Look
from polyplink.report.ticks import clock_ticks, ticks

# All in units of the drawing, which are pixels at its natural size.
LEFT, WIDTH, RIGHT = 62.0, 1020.0, 14.0  # gutter for row names; the axis; room for the last tick
BAR, GAP = 15.0, 6.0
LANE = LEVELS * LABEL + BAR + GAP
MARKS = 14.0  # gutter between the rows, where disagreements are marked
AXIS = 24.0
THINNEST = 3.0  # a tracklet of two seconds in an hour must still be seen
APART = 26.0  # bars further from each other than this get a label each


PolypOf = Callable[[Tracklet], Polyp | None]


@dataclass(frozen=True)
class Bar:
    """One tracklet in a row of the time line."""

    x: float
    y: float
    width: float
    look: Look | None
    wrong: bool
    title: str


@dataclass(frozen=True)
class Row:
    """Counted or true: a name, the bars and their labels."""

    name: str
    y: float
    bars: list[Bar]
    labels: list[Label]


@dataclass(frozen=True)
class Timeline:
    """A drawing ready for the template; lengths in drawing units (pixels at natural size).

    Attributes:
        width: Of the drawing.
        height: Of the drawing.
        left: Where the axis begins.
        right: Where it ends.
        axis: Height of the axis line, from the top.
        rows: Counted polyps and, where known, true ones.
        crosses: Centres (x, y) of the marks of disagreement.
        ticks: Place and text of each tick.
        summary: One sentence for those who cannot see it.
    """

    width: float
    height: float
    left: float
    right: float
    axis: float
    rows: list[Row]
    crosses: list[tuple[float, float]]
    ticks: list[tuple[float, str]]
    summary: str


def describe(tracklet: Tracklet, matching: Matching, fps: float | None) -> str:
    """Hover text of a tracklet: frames, counted and true polyp, sureness."""
    counted = matching.counted[tracklet.predicted]
    lines = [
        f"tracklet {tracklet.tracklet_id}",
        f"frames {tracklet.first} to {tracklet.last}"
        + (f" (from {moment(tracklet.first, fps)})" if fps else ""),
        f"counted as {counted.label} ({counted.name})",
    ]
    if tracklet.polyp_id is not None:
        true = matching.true[tracklet.polyp_id]
        lines.append(f"true polyp {true.label} ({true.name})")
    lines.append(f"sureness {number(tracklet.sureness, 2)}")
    if matching.is_wrong(tracklet):
        lines.append("disagrees with the truth")
    return "\n".join(lines)


@dataclass(frozen=True)
class Item:
    """A tracklet, where it lies in both rows, and what its bars say."""

    tracklet: Tracklet
    lane: int
    x: float
    width: float
    wrong: bool
    title: str


def items(procedure: Procedure, matching: Matching, scale: float) -> list[Item]:
    """Place the tracklets, in time; `scale` is in drawing units per frame."""
    tracklets = sorted(procedure.tracklets, key=lambda t: (t.first, t.last, t.tracklet_id))
    return [
        Item(
            tracklet,
            lane,
            LEFT + tracklet.first * scale,
            max(THINNEST, (tracklet.last - tracklet.first + 1) * scale),
            matching.is_wrong(tracklet),
            describe(tracklet, matching, procedure.fps),
        )
        for tracklet, lane in zip(
            tracklets, lanes([(t.first, t.last) for t in tracklets]), strict=True
        )
    ]


def runs(lane: list[Item], polyp_of: PolypOf) -> list[list[Item]]:
    """Cut a lane where the polyp changes or the next bar is far off; each run shares a label."""
    cut: list[list[Item]] = []
    for item in lane:
        last = cut[-1][-1] if cut else None
        if (
            last is not None
            and polyp_of(last.tracklet) == polyp_of(item.tracklet)
            and item.x - last.x - last.width <= APART
        ):
            cut[-1].append(item)
        else:
            cut.append([item])
    return cut


def row(name: str, top: float, placed: list[Item], polyp_of: PolypOf) -> Row:
    """Lay out one row: bars coloured by polyp, and one label for each run of the same polyp.

    Args:
        name: The row's name.
        top: Its top, drawing units.
        placed: Tracklets in time.
        polyp_of: The polyp a tracklet shows in this row; None where unknown.
    """
    bars, labels = [], []
    for lane in range(max((item.lane for item in placed), default=-1) + 1):
        lane_top = top + lane * LANE
        centres = []
        for run in runs([item for item in placed if item.lane == lane], polyp_of):
            polyp = polyp_of(run[0].tracklet)
            look, y = polyp.look if polyp else None, lane_top + LEVELS * LABEL
            bars += [Bar(i.x, y, i.width, look, i.wrong, i.title) for i in run]
            middle = (run[0].x + run[-1].x + run[-1].width) / 2
            centres.append((middle, polyp.label if polyp else "?"))
        labels += place_labels(centres, lane_top)
    return Row(name, top + LEVELS * LABEL + BAR / 2, bars, labels)


def axis_ticks(procedure: Procedure, scale: float) -> list[tuple[float, str]]:
    """Ticks in minutes and seconds where the frame rate is known, else in frames."""
    if procedure.fps:
        fps = procedure.fps
        times = clock_ticks(procedure.n_frames / fps, 12)
        return [(LEFT + time * fps * scale, moment(round(time * fps), fps)) for time in times]
    frames = ticks(0, max(1, procedure.n_frames), 12)
    return [(LEFT + frame * scale, f"{frame:.0f}") for frame in frames if frame.is_integer()]


def summary(procedure: Procedure, matching: Matching) -> str:
    """What the time line shows, in one sentence."""
    text = f"Time line of {len(procedure.tracklets)} tracklets in {procedure.n_counted} polyps"
    if matching.true:
        wrong = sum(matching.is_wrong(tracklet) for tracklet in procedure.tracklets)
        text += f"; truth: {len(matching.true)} polyps, {wrong} tracklets disagree"
    return text


def layout(procedure: Procedure, matching: Matching) -> Timeline:
    """Lay out the time line of a procedure over its whole recording.

    Args:
        procedure: The procedure; tracklets that overlap in time get lanes of their own.
        matching: Its polyps, from `matching.match`.
    """
    scale = WIDTH / max(1, procedure.n_frames)
    placed = items(procedure, matching, scale)
    depth = (max((item.lane for item in placed), default=0) + 1) * LANE

    def true_polyp(tracklet: Tracklet) -> Polyp | None:
        return None if tracklet.polyp_id is None else matching.true[tracklet.polyp_id]

    rows = [row("counted", 0, placed, lambda t: matching.counted[t.predicted])]
    if matching.true:
        rows.append(row("true", depth + MARKS, placed, true_polyp))
    axis = len(rows) * depth + (len(rows) - 1) * MARKS + 2
    crosses = [(bar.x + bar.width / 2, depth + 4) for bar in rows[0].bars if bar.wrong]
    return Timeline(
        LEFT + WIDTH + RIGHT,
        axis + AXIS,
        LEFT,
        LEFT + WIDTH,
        axis,
        rows,
        crosses,
        axis_ticks(procedure, scale),
        summary(procedure, matching),
    )
