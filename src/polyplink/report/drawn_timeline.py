"""The timeline of a procedure: a line per counted polyp, and below them a line per true polyp.

Drawn by a template instead of matplotlib: each bar has a hover text, takes its colour, texture
and outline from the page's style sheet (dark mode, print), and a procedure may have hundreds of
them. This module computes their positions; all lengths are in units of the drawing, pixels at its
natural size.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from polyplink.report.formats import Texts, clock, percent
from polyplink.report.polyps import Look, Matching, in_time
from polyplink.report.records import Procedure, Tracklet

LEFT, WIDTH, RIGHT = 84.0, 998.0, 14.0  # widths: names; axis; margin for the last tick label
BAR, GAP = 12.0, 5.0  # height of a bar; space below it
BETWEEN = 12.0  # space between counted and true polyps
AXIS = 24.0
NARROWEST = 3.0  # a tracklet of two seconds in an hour must still be visible
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


class Row(NamedTuple):
    """The name and the bars of a polyp; `y` is the middle of its first bars."""

    name: str
    y: float
    bars: list[Bar]


class Timeline(NamedTuple):
    """A time line ready for the template; the axis is a line at `axis`, from `left` to `right`."""

    width: float
    height: float
    left: float
    right: float
    bar: float  # height of a bar
    axis: float
    rows: list[Row]  # counted polyps and, where known, true ones
    crosses: list[tuple[float, float]]  # centres (x, y) of bars counted with another polyp
    ticks: list[tuple[float, str]]  # x and text
    summary: str  # one sentence for screen readers


def layout(procedure: Procedure, matching: Matching, t: Texts) -> Timeline:
    """Place the tracklets of a procedure on an axis over its whole recording.

    Args:
        procedure: The procedure; tracklets of one polyp that overlap in time get different lanes.
        matching: The polyps of the procedure, from `polyps.match`.
        t: The texts of the page.
    """
    tracklets = in_time(procedure)
    scale = WIDTH / max(1, procedure.n_frames)

    # The name, look and tracklets of each counted polyp and, after them, of each true one.
    groups: list[tuple[str, Look | None, list[Tracklet]]] = []
    for polyp in matching.counted.values():
        members = [tracklet for tracklet in tracklets if matching.counted_of(tracklet) == polyp]
        groups.append((t("report.polyp", n=polyp.label), polyp.look, members))
    for polyp in matching.true.values():
        members = [tracklet for tracklet in tracklets if matching.true_of(tracklet) == polyp]
        groups.append((t("report.true_row", label=polyp.label), polyp.look, members))
    unknown = [tracklet for tracklet in tracklets if matching.true_of(tracklet) is None]
    if matching.true and unknown:
        groups.append((t("report.unknown_row"), None, unknown))

    # A row for each, with as many lanes as it has tracklets at a time.
    rows: list[Row] = []
    bottom = GAP
    for name, look, members in groups:
        if len(rows) == len(matching.counted):
            bottom += BETWEEN
        lanes = assign_lanes([(tracklet.first, tracklet.last) for tracklet in members])
        bars = [
            Bar(
                LEFT + tracklet.first * scale,
                bottom + lane * (BAR + GAP),
                max(NARROWEST, (tracklet.last - tracklet.first + 1) * scale),
                look,
                matching.is_wrong(tracklet),
                describe(tracklet, matching, procedure.fps, t),
            )
            for tracklet, lane in zip(members, lanes, strict=True)
        ]
        rows.append(Row(name, bottom + BAR / 2, bars))
        bottom += (max(lanes) + 1) * (BAR + GAP)
    crosses = [
        (bar.x + bar.width / 2, bar.y + BAR / 2)
        for row in rows[: len(matching.counted)]
        for bar in row.bars
        if bar.wrong
    ]
    counts = {
        "polyps": t("report.polyps", n=procedure.n_counted),
        "views": t("views", n=len(tracklets)),
        "true": t("report.polyps", n=len(matching.true)),
        "wrong": t("views", n=len(crosses)),
    }
    return Timeline(
        LEFT + WIDTH + RIGHT,
        bottom + AXIS,
        LEFT,
        LEFT + WIDTH,
        BAR,
        bottom,
        rows,
        crosses,
        [(LEFT + frame * scale, text) for frame, text in ticks(procedure)],
        t("report.timeline_with_truth" if matching.true else "report.timeline", **counts),
    )


def describe(tracklet: Tracklet, matching: Matching, fps: float | None, t: Texts) -> str:
    """Hover text of a tracklet: frames, share bridged, counted and true polyp, confidence."""
    counted, true = matching.counted_of(tracklet), matching.true_of(tracklet)
    span = {"first": tracklet.first, "last": tracklet.last}
    lines = [
        t("report.view", name=tracklet.tracklet_id),
        t("report.span_from", **span, time=t.moment(tracklet.first, fps))
        if fps
        else t("report.span", **span),
        t("report.counted_as", label=counted.label),
    ]
    if tracklet.bridged:
        lines.insert(2, t("report.not_detected_in", share=percent(tracklet.bridged)))
    if true is not None:
        lines.append(t("report.true_polyp", label=true.label, name=true.name))
    lines.append(f"{t('report.confidence')} {percent(tracklet.confidence)}")
    if matching.is_wrong(tracklet):
        lines.append(t("report.counted_with_another"))
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


def ticks(procedure: Procedure) -> list[tuple[float, str]]:
    """Frame and text of each tick: round times if the frame rate is known, else frame numbers."""
    fps, last = procedure.fps, max(1, procedure.n_frames)
    if fps:
        seconds = last / fps
        steps = [step for step in CLOCK_STEPS if seconds / step <= TICKS]
        step = steps[0] if steps else CLOCK_STEPS[-1] * math.ceil(seconds / 36000 / TICKS)
        times = range(0, math.floor(seconds) + 1, step)
        return [(time * fps, clock(round(time * fps) / fps)) for time in times]
    positions = MaxNLocator(TICKS, integer=True, steps=[1, 2, 5, 10]).tick_values(0, last)
    return [(float(frame), f"{frame:.0f}") for frame in positions if 0 <= frame <= last]
