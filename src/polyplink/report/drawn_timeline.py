"""The timeline of a procedure: predicted polyps in one row, true polyps in a row below.

Drawn by a template instead of matplotlib: each bar has a hover text, takes its colour, texture
and outline from the page's style sheet (dark mode, print), and a procedure may have hundreds of
them. This module computes their positions; all lengths are in units of the drawing, pixels at its
natural size.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from polyplink.report.formats import moment, percent
from polyplink.report.polyps import Look, Matching, Polyp, in_time
from polyplink.report.records import Procedure, Tracklet

LEFT, WIDTH, RIGHT = 62.0, 1020.0, 14.0  # widths: row names; axis; margin for the last tick label
LEVELS, LABEL, DIGIT = 2, 11.0, 7.5  # label levels above a lane; label height; character width
BAR, GAP = 15.0, 6.0  # height of a bar; space below it
LANE = LEVELS * LABEL + BAR + GAP
MARKS = 14.0  # space between the rows, in which disagreements are marked
AXIS = 24.0
NARROWEST = 3.0  # a tracklet of two seconds in an hour must still be visible
APART = 26.0  # bars further apart than this get a label each
TICKS = 12  # most intervals between ticks
CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000, 36000)  # s


class Bar(NamedTuple):
    """A tracklet in a row of the time line."""

    x: float
    y: float
    width: float
    look: Look | None
    wrong: bool
    title: str


class Label(NamedTuple):
    """A polyp's number or letter; `foot` is the y at which the line from a raised label ends."""

    x: float
    y: float
    text: str
    foot: float | None


class Row(NamedTuple):
    """A row of counted or true polyps: its name, bars and labels."""

    name: str
    y: float
    bars: list[Bar]
    labels: list[Label]


class Timeline(NamedTuple):
    """A time line ready for the template; the axis is a line at `axis`, from `left` to `right`."""

    width: float
    height: float
    left: float
    right: float
    axis: float
    rows: list[Row]  # counted polyps and, where known, true ones
    crosses: list[tuple[float, float]]  # centres (x, y) of the marks of disagreement
    ticks: list[tuple[float, str]]  # x and text
    summary: str  # one sentence for screen readers


def layout(procedure: Procedure, matching: Matching) -> Timeline:
    """Place the tracklets of a procedure on an axis over its whole recording.

    Args:
        procedure: The procedure; tracklets that overlap in time get different lanes.
        matching: The polyps of the procedure, from `polyps.match`.
    """
    tracklets = in_time(procedure)
    lanes = assign_lanes([(t.first, t.last) for t in tracklets])
    scale = WIDTH / max(1, procedure.n_frames)

    def row(name: str, top: float, polyp_of: Callable[[Tracklet], Polyp | None]) -> Row:
        bars, labels = [], []
        for lane in range(max(lanes, default=-1) + 1):
            y = top + lane * LANE + LEVELS * LABEL
            # Neighbouring bars of one polyp share a label: start, end and text of each run.
            runs: list[tuple[float, float, str]] = []
            for tracklet, at in zip(tracklets, lanes, strict=True):
                if at != lane:
                    continue
                polyp, wrong = polyp_of(tracklet), matching.is_wrong(tracklet)
                x = LEFT + tracklet.first * scale
                width = max(NARROWEST, (tracklet.last - tracklet.first + 1) * scale)
                title = describe(tracklet, matching, procedure.fps)
                bars.append(Bar(x, y, width, polyp.look if polyp else None, wrong, title))
                start, text = x, polyp.label if polyp else "?"
                if runs and runs[-1][2] == text and x - runs[-1][1] <= APART:
                    start, _, _ = runs.pop()
                runs.append((start, x + width, text))
            labels += place_labels([((start + end) / 2, text) for start, end, text in runs], y)
        return Row(name, top + LEVELS * LABEL + BAR / 2, bars, labels)

    depth = (max(lanes, default=0) + 1) * LANE
    rows = [row("counted", 0, matching.counted_of)]
    if matching.true:
        rows.append(row("true", depth + MARKS, matching.true_of))
    axis = len(rows) * depth + (len(rows) - 1) * MARKS + 2
    wrong = [bar for bar in rows[0].bars if bar.wrong]
    summary = f"Time line of {len(tracklets)} views of {procedure.n_counted} polyps"
    if matching.true:
        summary += (
            f"; truth: {len(matching.true)} polyps, {len(wrong)} views are counted with another"
        )
    return Timeline(
        LEFT + WIDTH + RIGHT,
        axis + AXIS,
        LEFT,
        LEFT + WIDTH,
        axis,
        rows,
        [(bar.x + bar.width / 2, depth + 4) for bar in wrong],
        [(LEFT + frame * scale, text) for frame, text in ticks(procedure)],
        summary,
    )


def describe(tracklet: Tracklet, matching: Matching, fps: float | None) -> str:
    """Hover text of a tracklet: frames, share bridged, counted and true polyp, confidence."""
    counted, true = matching.counted_of(tracklet), matching.true_of(tracklet)
    lines = [
        f"view {tracklet.tracklet_id}",
        f"frames {tracklet.first} to {tracklet.last}"
        + (f" (from {moment(tracklet.first, fps)})" if fps else ""),
        f"counted as polyp {counted.label}",
    ]
    if tracklet.bridged:
        lines.insert(2, f"not detected in {percent(tracklet.bridged)} of them")
    if true is not None:
        lines.append(f"true polyp {true.label} ({true.name})")
    lines.append(f"confidence {percent(tracklet.confidence)}")
    if matching.is_wrong(tracklet):
        lines.append("counted with another polyp than the one it shows")
    return "\n".join(lines)


def assign_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Assign spans to as few lanes as possible so that none overlap within a lane.

    Args:
        spans: (start, end) of each span, both inclusive, sorted by start.

    Returns:
        Lane of each span, from 0.
    """
    ends: list[float] = []
    lanes = []
    for start, end in spans:
        free = next((i for i, last in enumerate(ends) if last < start), len(ends))
        ends[free : free + 1] = [end]
        lanes.append(free)
    return lanes


def place_labels(centres: Iterable[tuple[float, str]], floor: float) -> list[Label]:
    """Place labels above a lane so that none touch; labels that do not fit are left out.

    Args:
        centres: Centre and text of each label, sorted by centre.
        floor: Top of the bars, where the lowest labels stand.

    Returns:
        The labels that fit, each on the lowest level with room.
    """
    right_ends = [-math.inf] * LEVELS  # rightmost x in use, lowest level first
    labels = []
    for centre, text in centres:
        half = DIGIT * len(text) / 2
        for level in range(LEVELS):
            # The line from a raised label to its bar must not cross the labels below it.
            clear = all(end < centre - 1 for end in right_ends[:level])
            if clear and centre - half > right_ends[level]:
                right_ends[: level + 1] = [centre + 1] * level + [centre + half]
                y = floor - level * LABEL - 3
                labels.append(Label(centre, y, text, floor if level else None))
                break
    return labels


def ticks(procedure: Procedure) -> list[tuple[float, str]]:
    """Frame and text of each tick: round times if the frame rate is known, else frame numbers."""
    fps, last = procedure.fps, max(1, procedure.n_frames)
    if fps:
        seconds = last / fps
        steps = [step for step in CLOCK_STEPS if seconds / step <= TICKS]
        step = steps[0] if steps else CLOCK_STEPS[-1] * math.ceil(seconds / 36000 / TICKS)
        times = range(0, math.floor(seconds) + 1, step)
        return [(time * fps, moment(round(time * fps), fps)) for time in times]
    positions = MaxNLocator(TICKS, integer=True, steps=[1, 2, 5, 10]).tick_values(0, last)
    return [(float(frame), f"{frame:.0f}") for frame in positions if 0 <= frame <= last]
