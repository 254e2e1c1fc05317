"""A procedure linked under its corrections, and what the page of a review shows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from polyplink.associate.identities import (
    MOST_QUESTIONS,
    Constraints,
    Identities,
    OperatingPoint,
    Question,
    count_polyps,
)
from polyplink.associate.links import Views
from polyplink.core.messages import Message
from polyplink.core.text import rounded_probability
from polyplink.counting.corrections import (
    ABOUT_NO_POLYP,
    WITHOUT_DECISION,
    Correction,
    Decided,
    applied_corrections,
    question_answers,
)
from polyplink.counting.count_part import named_procedures
from polyplink.counting.link import alike_messages
from polyplink.counting.result import Count, CountedProcedure, doubt_of


class Doubt(NamedTuple):
    """A question whether views show a polyp.

    Attributes:
        rows: Rows of their tracklets.
        chance: Probability that they do.
        counted: Whether they are counted as a polyp; otherwise they are left out as a false alarm.
    """

    rows: list[int]
    chance: float
    counted: bool

    @property
    def confidence(self) -> float:
        """Probability that the views are rightly counted or left out."""
        return self.chance if self.counted else 1.0 - self.chance


class Solved(NamedTuple):
    """A procedure, linked under its corrections.

    Attributes:
        table: All tracklets in temporal order, including false alarms and removed ones.
        log: The corrections of these views.
        outdated: Whether views were reviewed that a new count no longer has, and the review of the
            present ones is not finished.
        decided: The decisions that follow from them.
        counted: Rows of the tracklets that are linked.
        polyps: Index of the polyp of each row; None for tracklets that are not linked.
        doubts_answered: Number of polyps that might have been false alarms, and of false alarms
            that might have been polyps, that were reviewed.
        views: The views of the linked tracklets; None if there are none.
        identities: Their identities; None if there are none.
        alike: Pairs of polyps that look alike in the same frames and were not called different.
        doubtful: Polyps that may be false alarms and false alarms that may be polyps, if they were
            not reviewed.
    """

    table: pl.DataFrame
    log: list[Correction]
    outdated: bool
    decided: Decided
    counted: list[int]
    polyps: list[int | None]
    doubts_answered: int
    views: Views | None = None
    identities: Identities | None = None
    alike: Sequence[tuple[int, int]] = ()
    doubtful: Sequence[Doubt] = ()

    def is_joined(self, answer: Correction) -> bool | None:
        """Whether the pair of an answer is counted as one polyp; None if one is not counted."""
        polyp = dict(zip(self.table["tracklet_id"], self.polyps, strict=True))
        a, b = polyp.get(answer.tracklets[0]), polyp.get(answer.others[0])
        return None if a is None or b is None else a == b

    def noted(self, answer: Correction) -> Correction:
        """An answer with what was counted or asked when it was given, see `Correction`."""
        if answer.kind == "unsure" and answer.others:
            return replace(answer, joined=self.is_joined(answer))
        if answer.kind in ("polyp", "not_polyp", "unsure"):
            ids = self.table["tracklet_id"].to_list()
            doubted = [{ids[row] for row in doubt.rows} for doubt in self.doubtful]
            return replace(answer, answers_doubt={*answer.tracklets} in doubted or None)
        return answer

    @property
    def answered(self) -> int:
        """Number of answered questions; one that is asked again is not answered."""
        latest = {
            frozenset((answer.tracklets[0], answer.others[0])): answer
            for answer in question_answers(self.log, self.decided)
        }
        asked_again = [
            {answer.joined, self.is_joined(answer)} == {True, False} for answer in latest.values()
        ]
        return len(latest) - sum(asked_again) + self.doubts_answered

    @property
    def n_open(self) -> int:
        """Number of open questions."""
        return len(self.doubtful) + sum(question.close for question in self.questions)

    @property
    def corrected(self) -> bool:
        """Whether a person changed or confirmed this count, so that its interval does not apply."""
        applied = applied_corrections(self.log, self.decided)
        return self.decided.done or any(answer.kind not in WITHOUT_DECISION for answer in applied)

    @property
    def n_polyps(self) -> int:
        """Number of polyps, with those that the reviewer added."""
        linked = 0 if self.identities is None else len(self.identities.names)
        return linked + len(self.decided.missed)

    @property
    def interval(self) -> tuple[int, int] | tuple[None, None]:
        """Lowest and highest number of polyps, 90 %; None if `corrected`."""
        interval = None if self.identities is None or self.corrected else self.identities.interval
        return interval or (None, None)

    @property
    def questions(self) -> list[Question]:
        """The decisions to review."""
        return [] if self.identities is None else self.identities.questions


def chances_of(counted: CountedProcedure) -> dict[str, float | None]:
    """Probability that each tracklet of a procedure shows a polyp, by its id."""
    listed = (*counted.alarms, *(t for polyp in counted.groups for t in polyp.tracklets))
    return {tracklet.tracklet_id: tracklet.shows_polyp for tracklet in listed}


def doubts_of(
    counted: CountedProcedure,
    table: pl.DataFrame,
    polyps: Sequence[int | None],
    decided: Decided,
) -> list[Doubt]:
    """`Solved.doubtful` of a procedure: polyps first, of each kind those of least confidence."""
    chances, ids = chances_of(counted), table["tracklet_id"].to_list()
    reviewed = decided.restored | decided.undecided
    rows_of: dict[int, list[int]] = {}
    for row, polyp in enumerate(polyps):
        if polyp is not None:
            rows_of.setdefault(polyp, []).append(row)
    doubts = []
    for rows in rows_of.values():
        doubt = doubt_of(chances.get(table["whole"][row]) for row in rows)
        if doubt is not None and reviewed.isdisjoint(ids[row] for row in rows):
            doubts.append(Doubt(rows, doubt, True))
    reviewed |= decided.removed
    for alarm in counted.doubtful_alarms:
        rows = (table["whole"] == alarm.tracklet_id).arg_true().to_list()
        if reviewed.isdisjoint(ids[row] for row in rows):
            doubts.append(Doubt(rows, alarm.shows_polyp or 0.0, False))
    return sorted(doubts, key=lambda doubt: (not doubt.counted, doubt.confidence))


def doubts_answered(counted: CountedProcedure, log: Sequence[Correction], decided: Decided) -> int:
    """`Solved.doubts_answered` of a procedure.

    Doubtful polyps and false alarms of the count that were reviewed without being asked about
    (their views were merged, removed or taken back in one by one) are answered too, as are all in
    logs of earlier versions.
    """
    answers = applied_corrections(log, decided)
    answered_views = {frozenset(answer.tracklets) for answer in answers if answer.answers_doubt}
    answered, reviewed = len(answered_views), decided.restored | decided.undecided
    for polyp in counted.doubtful:
        ids = {tracklet.tracklet_id for tracklet in polyp.tracklets}
        if all(ids.isdisjoint(views) for views in answered_views):
            answered += ids <= decided.removed or not ids.isdisjoint(reviewed)
    for alarm in counted.doubtful_alarms:
        if all(alarm.tracklet_id not in views for views in answered_views):
            answered += alarm.tracklet_id in reviewed | decided.removed
    return answered


def corrected_messages(count: Count, solved: Mapping[str, Solved]) -> list[Message]:
    """The warnings of a count under its corrections.

    Corrections can change which polyps look alike, and which procedures have no polyp.

    Args:
        count: The count.
        solved: Its procedures by name, under their corrections.
    """
    if not any(procedure.corrected for procedure in solved.values()):
        return [*count.all_messages]
    empty = [
        procedure.procedure_id
        for procedure in count.procedures
        if procedure.polyps == solved[procedure.procedure_id].n_polyps == 0
    ]
    messages = []
    for message in count.all_messages:
        if message.kind == "counted_none" and empty:
            values = {**message.values, **named_procedures(empty)}
            messages.append(Message(message.kind, values))
        elif message.kind not in ("counted_none", "alike_together"):
            messages.append(message)
    alike = {name: procedure.alike for name, procedure in solved.items()}
    return [*messages, *alike_messages(alike)]


def rows_left(move: Mapping[str, Any], polyps: Sequence[int | None]) -> list[int]:
    """The other rows of the polyp that a view leaves; none if it moves within its polyp."""
    others = move.get("others")
    rows = [move.get("row"), *(others[:1] if isinstance(others, list) else ())]
    if not all(type(row) is int and 0 <= row < len(polyps) for row in rows):
        return []  # `parse_correction` refuses them
    before, *after = (polyps[row] for row in rows)
    if before is None or before in after:
        return []
    return [row for row, polyp in enumerate(polyps) if polyp == before and row != rows[0]]


def whole_polyps(rows: list[Any], polyps: Sequence[int | None]) -> list[Any]:
    """Rows to merge: if they belong to several polyps, all views of these polyps are added."""
    if not all(type(row) is int and 0 <= row < len(polyps) for row in rows):
        return rows  # `parse_correction` refuses them
    joined = {polyps[row] for row in rows} - {None}
    joined_rows = (
        [i for i, polyp in enumerate(polyps) if polyp in joined] if len(joined) > 1 else []
    )
    return list(dict.fromkeys([*rows, *joined_rows]))


def split_polyps(answer: Correction, before: Solved, after: Solved) -> list[list[int]]:
    """Rows of each polyp that an answer was not about and that is no longer one polyp."""
    if answer.kind in ABOUT_NO_POLYP:
        return []
    answered = {*answer.tracklets, *answer.apart}
    if answer.kind != "move":  # the polyp that a view moves to stays one polyp
        answered.update(answer.others)
    row_of = {name: row for row, name in enumerate(after.table["tracklet_id"])}
    groups: dict[int, list[str]] = {}
    for name, polyp in zip(before.table["tracklet_id"], before.polyps, strict=True):
        if polyp is not None:
            groups.setdefault(polyp, []).append(name)
    split = []
    for names in groups.values():
        if answer.kind in ("different", "split", "move", "cut") and answered & {*names}:
            continue
        rows = [row_of[name] for name in names if name in row_of]
        rows = [row for row in rows if after.polyps[row] is not None]
        if len({after.polyps[row] for row in rows}) > 1:
            split.append(rows)
    return split


def log_rows(solved: Solved, rate: float) -> list[dict[str, Any]]:
    """The corrections of a procedure for the page, with the rows of their tracklets.

    Args:
        solved: The procedure.
        rate: Its frames per second.
    """
    tracklet_ids = solved.table["tracklet_id"].to_list()
    row_of = {tracklet_id: i for i, tracklet_id in enumerate(tracklet_ids)}
    return [
        {
            "id": correction.id,
            "at": correction.at,
            "reviewer": correction.reviewer,
            "kind": correction.kind,
            "rows": [row_of[i] for i in correction.tracklets if i in row_of],
            "others": [row_of[i] for i in correction.others if i in row_of],
            "of": correction.of,
            "at_s": correction.seconds(rate),
            "undone": correction.id in solved.decided.undone,
            "set_aside": correction.id in solved.decided.set_aside,
        }
        for correction in solved.log
    ]


def question_facts(
    solved: Solved, tracklets: Sequence[Mapping[str, Any]], point: OperatingPoint
) -> list[dict[str, Any]]:
    """The questions of a procedure for the page, the first to be asked first.

    Doubts come first, because a link to a false alarm needs no answer. They have no `b`: only the
    views of `a` are shown.

    Args:
        solved: The procedure.
        tracklets: Its tracklets, from `Desk.procedure`.
        point: The operating point.
    """
    doubts = [
        {
            "a": max(doubt.rows, key=lambda row: float(tracklets[row]["area"])),
            "b": None,
            "members": doubt.rows,
            "others": [],
            "joined": None,
            "close": True,
            "probability": rounded_probability(doubt.chance),
            "counted": doubt.counted,
            "change": change_of(solved, doubt, point) if i < MOST_QUESTIONS else None,
        }
        for i, doubt in enumerate(solved.doubtful)
    ]
    counted = solved.counted
    links = [
        {
            "a": counted[question.pair[0]],
            "b": counted[question.pair[1]],
            "members": [counted[i] for i in question.members],
            "others": [counted[i] for i in question.others],
            "joined": question.joined,
            "close": question.close,
            "probability": rounded_probability(question.probability),
            "change": question.change,
        }
        for question in sorted(solved.questions, key=lambda question: not question.close)
    ]
    return [*doubts, *links]


def change_of(solved: Solved, doubt: Doubt, point: OperatingPoint) -> int:
    """Change of a count, in polyps, if the views were wrongly counted or left out.

    Without a polyp usually -1: each link depends on all views of the procedure, so that others may
    change too. A false alarm that is asked about is a further polyp, because links do not join it.
    """
    if not doubt.counted:
        return 1
    assert solved.views is not None
    assert solved.identities is not None
    kept = [i for i, row in enumerate(solved.counted) if row not in doubt.rows]
    table = solved.table[solved.counted][kept]
    views = solved.views.take(np.array(kept, dtype=np.intp))
    constraints = constraints_of(solved.decided, table["tracklet_id"].to_list())
    n_polyps = count_polyps(views, table["position"].to_numpy(), point, constraints)
    return n_polyps - len(solved.identities.names)


def constraints_of(decided: Decided, ids: Sequence[str]) -> Constraints:
    """Decisions as constraints: pairs of rows of the linked tracklets."""
    row = {tracklet_id: i for i, tracklet_id in enumerate(ids)}
    must, cannot = (
        tuple((row[a], row[b]) for a, b in pairs if a in row and b in row)
        for pairs in (decided.must, decided.cannot)
    )
    unsure = ((row[a], row[b], joined) for a, b, joined in decided.unsure if a in row and b in row)
    return Constraints(must, cannot, tuple(unsure))
