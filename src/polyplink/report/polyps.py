"""The polyps of a procedure in the report: counted and true ones matched, labelled, on a time line.

Colour is never the only cue: everything in a polyp's colour also carries its number or letter.

The time line, a line per counted polyp and below them a line per true polyp, is drawn by a template
instead of matplotlib: each bar has a hover text, takes its colour, texture and outline from the
page's style sheet (dark mode, print), and a procedure may have hundreds of them. Here its positions
are computed; all lengths are in units of the drawing, pixels at its natural size.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy.optimize import linear_sum_assignment

from polyplink.counting.result import CountedTracklet
from polyplink.report.contents import ReportedProcedure
from polyplink.report.formats import Texts, clock, percent

# Six colours of Okabe and Ito (2008, "Color universal design") and a brown; the yellow and black of
# that palette would be invisible on a white or a dark page. In this order neighbours differ most.
HUES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#7a4a1e",
)
TEXTURES = ("plain", "stripes", "dots")
# Of the time line.
LEFT, WIDTH, RIGHT = 84.0, 998.0, 14.0  # widths: names; axis; margin for the last tick label
BAR, GAP = 12.0, 5.0  # height of a bar; space below it
BETWEEN = 12.0  # space between counted and true polyps
AXIS = 24.0
NARROWEST = 3.0  # a tracklet of two seconds in an hour must still be visible
TICKS = 12  # most intervals between ticks
CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000, 36000)  # s


@dataclass(frozen=True)
class Look:
    """How a polyp is drawn: index of a hue, and one of `TEXTURES`."""

    hue: int
    texture: str


def look(index: int) -> Look:
    """The look of polyp number `index` (from 0); repeats after 7 hues x 3 textures."""
    turn, hue = divmod(index, len(HUES))
    return Look(hue, TEXTURES[turn % len(TEXTURES)])


@dataclass(frozen=True)
class Polyp:
    """A counted or a true polyp, as labelled on the page.

    Attributes:
        name: The id in the data.
        label: Number (counted) or letter (true), in order of first appearance.
        look: Colour and texture, shared by a counted polyp and the true polyp that it matches.
        partner: Name of the matching true (or counted) polyp, or None.
    """

    name: str
    label: str
    look: Look
    partner: str | None


@dataclass(frozen=True)
class Matching:
    """The polyps of a procedure, counted and true, in order of first appearance.

    Attributes:
        counted: Counted polyps by name.
        true: True polyps by name; empty if the truth is unknown.
        counted_of: Id of a tracklet -> the counted polyp to which it was assigned.
        true_of: Id of a tracklet -> the polyp that it shows, where known.
    """

    counted: dict[str, Polyp]
    true: dict[str, Polyp]
    counted_of: dict[str, Polyp]
    true_of: dict[str, Polyp]

    def is_wrong(self, tracklet: CountedTracklet) -> bool:
        """Whether a tracklet's true polyp is known and its counted polyp does not match it."""
        true = self.true_of.get(tracklet.tracklet_id)
        return true is not None and true.name != self.counted_of[tracklet.tracklet_id].partner


def in_time(tracklets: Iterable[CountedTracklet]) -> list[CountedTracklet]:
    """The tracklets sorted by time."""
    return sorted(tracklets, key=lambda t: (t.first_frame, t.last_frame, t.tracklet_id))


def match(procedure: ReportedProcedure) -> Matching:
    """Match counted with true polyps, one to one, so that matches share the most frames.

    This is an exact linear assignment; two polyps without a common frame do not match. A true polyp
    has the look of its partner; true polyps without a partner get the next unused looks.
    """
    groups, true_names = procedure.counted.groups, procedure.true_polyps
    counted_ids = [polyp.polyp for polyp in groups]
    in_order = [view.tracklet_id for view in in_time(procedure.tracklets)]
    true_ids = list(dict.fromkeys(true_names[name] for name in in_order if name in true_names))
    frames = np.zeros((len(counted_ids), len(true_ids)), dtype=np.int64)  # (k, m), shared by two
    for row, polyp in enumerate(groups):
        for view in polyp.tracklets:
            if view.tracklet_id in true_names:
                column = true_ids.index(true_names[view.tracklet_id])
                frames[row, column] += view.last_frame - view.first_frame + 1
    rows, columns = linear_sum_assignment(frames, maximize=True)
    pairs = [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if frames[r, c] > 0]
    true_of, counted_of = dict(pairs), {column: row for row, column in pairs}
    unmatched = [index for index in range(len(true_ids)) if index not in counted_of]
    look_of = counted_of | {index: len(counted_ids) + i for i, index in enumerate(unmatched)}
    counted_polyps = {
        name: Polyp(name, str(i + 1), look(i), true_ids[true_of[i]] if i in true_of else None)
        for i, name in enumerate(counted_ids)
    }
    true_polyps = {
        name: Polyp(
            name,
            letters(i),
            look(look_of[i]),
            counted_ids[counted_of[i]] if i in counted_of else None,
        )
        for i, name in enumerate(true_ids)
    }
    return Matching(
        counted_polyps,
        true_polyps,
        {view.tracklet_id: counted_polyps[p.polyp] for p in groups for view in p.tracklets},
        {tracklet_id: true_polyps[name] for tracklet_id, name in true_names.items()},
    )


def letters(index: int) -> str:
    """A letter label: 0, 1, ... as A, B, ..., Z, AA, AB, ..."""
    text = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        text = chr(ord("A") + letter) + text
    return text


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


def layout(procedure: ReportedProcedure, matching: Matching, t: Texts) -> Timeline:
    """Place the tracklets of a procedure on an axis over its whole recording.

    Args:
        procedure: The procedure; tracklets of one polyp that overlap in time get different lanes.
        matching: The polyps of the procedure, from `polyps.match`.
        t: The texts of the page.
    """
    tracklets = in_time(procedure.tracklets)
    scale = WIDTH / max(1, procedure.n_frames)

    # The name, look and tracklets of each counted polyp and, after them, of each true one.
    groups: list[tuple[str, Look | None, list[CountedTracklet]]] = []
    for group in procedure.counted.groups:
        polyp = matching.counted[group.polyp]
        groups.append((t("report.polyp", n=polyp.label), polyp.look, in_time(group.tracklets)))
    for polyp in matching.true.values():
        members = [view for view in tracklets if matching.true_of.get(view.tracklet_id) == polyp]
        groups.append((t("report.true_row", label=polyp.label), polyp.look, members))
    unknown = [view for view in tracklets if view.tracklet_id not in matching.true_of]
    if matching.true and unknown:
        groups.append((t("report.unknown_row"), None, unknown))

    # A row for each, with as many lanes as it has tracklets at a time.
    rows: list[Row] = []
    bottom = GAP
    for name, row_look, members in groups:
        if len(rows) == len(matching.counted):
            bottom += BETWEEN
        lanes = assign_lanes([(tracklet.first_frame, tracklet.last_frame) for tracklet in members])
        bars = [
            Bar(
                LEFT + tracklet.first_frame * scale,
                bottom + lane * (BAR + GAP),
                max(NARROWEST, (tracklet.last_frame - tracklet.first_frame + 1) * scale),
                row_look,
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
        "polyps": t("report.polyps", n=procedure.counted.polyps),
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


def describe(tracklet: CountedTracklet, matching: Matching, fps: float | None, t: Texts) -> str:
    """Hover text of a tracklet: frames, share bridged, counted and true polyp, confidence."""
    counted = matching.counted_of[tracklet.tracklet_id]
    true = matching.true_of.get(tracklet.tracklet_id)
    span = {"first": tracklet.first_frame, "last": tracklet.last_frame}
    lines = [
        t("report.view", name=tracklet.tracklet_id),
        t("report.span_from", **span, time=t.moment(tracklet.first_frame, fps))
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


def ticks(procedure: ReportedProcedure) -> list[tuple[float, str]]:
    """Frame and text of each tick: round times if the frame rate is known, else frame numbers."""
    fps, last = procedure.fps, max(1, procedure.n_frames)
    if fps:
        seconds = last / fps
        steps = [step for step in CLOCK_STEPS if seconds / step <= TICKS]
        step = steps[0] if steps else CLOCK_STEPS[-1] * math.ceil(seconds / 36000 / TICKS)
        times = range(0, math.floor(seconds) + 1, step)
        return [(time * fps, clock(time)) for time in times]
    positions = MaxNLocator(TICKS, integer=True, steps=[1, 2, 5, 10]).tick_values(0, last)
    return [(float(frame), f"{frame:.0f}") for frame in positions if 0 <= frame <= last]
