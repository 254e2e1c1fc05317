"""Corrections of a review: an append-only log, and the constraints that it implies.

Every answer of a reviewer is one line of `corrections.jsonl`; lines are never changed or removed.
Undo and redo are lines too. If answers contradict each other, the latest applies, and the older one
is set aside until one of them is undone.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import combinations, product
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import uuid4

import polars as pl
from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.counting.count_part import named_procedures

LOG = "corrections.jsonl"

PairKind = Literal["same", "different", "split"]
FrameKind = Literal["missed", "not_missed"]
OtherKind = Literal[
    "unsure", "not_polyp", "polyp", "merge", "move", "cut", "done", "reopen", "undo", "redo"
]
PAIRS: tuple[str, ...] = get_args(PairKind)  # kinds that need two sides
OF_A_FRAME: tuple[str, ...] = get_args(FrameKind)  # kinds that need a frame and no tracklet
KINDS = (*PAIRS, *OF_A_FRAME, *get_args(OtherKind))
WITHOUT_DECISION = ("unsure", "not_missed")  # answers that leave the count as it is
ABOUT_NO_POLYP = ("undo", "redo", "done", "reopen")
Pair = tuple[str, str]


@dataclass(frozen=True)
class Correction:
    """One answer of a reviewer about one procedure.

    Attributes:
        procedure: The procedure.
        kind: Kind of the answer: `same`, `different` or `unsure` about tracklets[0] and others[0];
            `not_polyp`, `polyp` or, without `others`, `unsure` about `tracklets`; `merge`:
            `tracklets` show one polyp; `split`: `tracklets` show another polyp than `others`;
            `move`: tracklets[0] shows the polyp of others[0] (or no other's), not that of `apart`;
            `cut`: tracklets[0] shows one polyp before `frame` and another from there on, and its
            parts are others[0] and others[1]; `missed`: a polyp without a tracklet is in view in
            `frame`; `not_missed`: at the place in `frame` where one may have been missed, none was;
            `done` and `reopen` about the procedure; `undo`, `redo`.
        tracklets: Ids of tracklets.
        others: Ids of the other tracklets.
        apart: For `move`, the tracklets from which it was moved away.
        frame: For `cut`, the first frame of the second part; for `missed`, that of the polyp; for
            `not_missed`, that of the place.
        joined: For `unsure` about two, whether these were counted as one polyp then.
        answers_doubt: True if it answers the question whether `tracklets` show a polyp; None if
            not, and in logs of earlier versions.
        of: For `undo` and `redo`, the id of the correction.
        views: Key of the views that were reviewed, see `views_key`; "" in logs of earlier versions.
        reviewer: Name of the reviewer.
        id: Unique id.
        at: Time of the answer, UTC, ISO 8601.
    """

    procedure: str
    kind: PairKind | FrameKind | OtherKind
    tracklets: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    frame: int | None = None
    joined: bool | None = None
    answers_doubt: bool | None = None
    of: str | None = None
    views: str = ""
    reviewer: str = ""
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))

    def __post_init__(self) -> None:
        """Refuse a correction that lacks a field or tracklets."""
        without_tracklets = (*OF_A_FRAME, *ABOUT_NO_POLYP)
        n_tracklets = {"merge": 2}.get(self.kind, int(self.kind not in without_tracklets))
        n_others = {"cut": 2}.get(self.kind, int(self.kind in PAIRS))
        complete = len(self.tracklets) >= n_tracklets and len(self.others) >= n_others
        complete &= self.frame is not None or self.kind not in ("cut", *OF_A_FRAME)
        complete &= self.of is not None or self.kind not in ("undo", "redo")
        if not complete:
            raise ValueError(f"{self.kind!r} is not complete")

    def seconds(self, rate: float) -> float | None:
        """The time of `frame` in seconds, at `rate` frames per second; None without a frame."""
        return None if self.frame is None else round(self.frame / rate, 2)

    def pairs(self) -> tuple[list[Pair], list[Pair]]:
        """Pairs of tracklets that show one polyp, and pairs that show two, by this correction.

        Those of a merge depend on other answers, see `decide`.
        """
        tracklets, others = self.tracklets, self.others
        match self.kind:
            case "same":
                return [(tracklets[0], others[0])], []
            case "different" | "split":
                return [], [(tracklet, second) for tracklet in tracklets for second in others]
            case "cut":
                return [], [(others[0], others[1])]
            case "move":
                return [(tracklets[0], second) for second in others[:1]], [
                    (tracklets[0], a) for a in self.apart
                ]
        return [], []


_READER = TypeAdapter(Correction)


def read_corrections(folder: Path) -> list[Correction]:
    """The log of a folder, in order; an incomplete last line is ignored.

    Raises:
        PolyplinkError: If a line is broken.
    """
    path = folder / LOG
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    corrections = []
    for number, line in enumerate(lines, start=1):
        try:
            corrections.append(_READER.validate_json(line))
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise PolyplinkError(
                f"{path}, line {number}: not a correction ({reason})", "restore the file"
            ) from None
    return corrections


def check_text(text: str, source: str) -> None:
    """Refuse text that cannot be stored in UTF-8, such as half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PolyplinkError(
            f"{source} holds text that is not UTF-8", "write it in UTF-8"
        ) from None


def append_correction(folder: Path, correction: Correction) -> None:
    """Append a line to the log and flush it to the disk; several processes may do so at once."""
    path = folder / LOG
    fields = {k: v for k, v in asdict(correction).items() if v not in ((), None)}
    check_text(json.dumps(fields, ensure_ascii=False), "the correction")
    line = json.dumps(fields)
    with FileLock(path.with_name(f".{LOG}.lock")), path.open("a+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - (1 << 16), 0))
        cut_short = file.read().rpartition(b"\n")[2]  # by a process that was killed
        file.truncate(end - len(cut_short))
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True)
class Decided:
    """The decisions that follow from a procedure's corrections.

    Attributes:
        must: Pairs of tracklets that show one polyp.
        cannot: Pairs of tracklets that show two polyps.
        unsure: Pairs that were reviewed without a decision, and `Correction.joined`.
        undecided: Tracklets that may show a polyp or none, reviewed without a decision.
        removed: Tracklets that show no polyp.
        restored: Tracklets that show a polyp, even if the model of false alarms rejects them.
        missed: Polyps without a tracklet, by frame.
        not_missed: Frames of the places at which no polyp was missed.
        set_aside: Contradicted corrections, each with the later ones that contradict it.
        undone: Corrections that were undone.
        undo: The correction to undo next.
        redo: The correction to redo next.
        done: Whether the procedure is marked as finished, and was not changed since.
    """

    must: tuple[Pair, ...]
    cannot: tuple[Pair, ...]
    unsure: tuple[tuple[str, str, bool | None], ...]
    undecided: frozenset[str]
    removed: frozenset[str]
    restored: frozenset[str]
    missed: tuple[Correction, ...]
    not_missed: frozenset[int]
    set_aside: dict[str, tuple[str, ...]]
    undone: frozenset[str]
    undo: str | None
    redo: str | None
    done: bool


def decide(log: Sequence[Correction], tracklet_ids: Sequence[str]) -> Decided:
    """Replay the corrections of one procedure.

    The latest correction applies, and an older one that contradicts it is set aside. Of a merge,
    what does not contradict later corrections applies if these separate its tracklets into sides.

    Args:
        log: The corrections of the procedure, in order.
        tracklet_ids: Ids of its tracklets; corrections of other tracklets are ignored.

    Example:
        >>> yes = Correction("v", "same", ("a",), ("b",))
        >>> no = Correction("v", "different", ("a",), ("b",))
        >>> decided = decide([yes, no], ["a", "b"])
        >>> decided.must, decided.cannot, decided.set_aside == {yes.id: (no.id,)}
        ((), (('a', 'b'),), True)
    """
    corrections, undone = _replay(log)
    active = [correction for name, correction in corrections.items() if name not in undone]
    shows: dict[str, bool] = {}
    for correction in active:
        if correction.kind in ("not_polyp", "polyp", "merge"):  # merged views show a polyp
            shows |= dict.fromkeys(correction.tracklets, correction.kind != "not_polyp")
    counted = {name for name in tracklet_ids if shows.get(name, True)}
    must: list[Pair] = []
    cannot: list[Pair] = []
    accepted: list[tuple[Correction, list[Pair]]] = []
    set_aside = {}
    for correction in reversed(active):  # the latest one applies
        together, apart = (
            [pair for pair in pairs if counted.issuperset(pair)] for pairs in correction.pairs()
        )
        if correction.kind == "merge":
            merged = [name for name in correction.tracklets if name in counted]
            together = _paired_with_first(merged)
        group = _contradiction([*must, *together], [*cannot, *apart])
        if group and correction.kind == "merge" and (sides := _sides(merged, must, cannot)):
            together = [pair for side in sides for pair in _paired_with_first(side)]
            group = _contradiction([*must, *together], cannot)
        if group:
            later_ids = (c.id for c, pairs in accepted if any(group >= {*pair} for pair in pairs))
            set_aside[correction.id] = tuple(later_ids)
        else:
            must, cannot = [*must, *together], [*cannot, *apart]
            accepted.append((correction, [*together, *apart]))
    unsure, undecided = [], set[str]()
    for correction in active:
        if correction.kind == "unsure" and correction.others:
            pair = (correction.tracklets[0], correction.others[0])
            unsure.append((*pair, correction.joined))
        elif correction.kind == "unsure":
            undecided.update(correction.tracklets)
    missed = [correction for correction in active if correction.kind == "missed"]
    not_missed = [correction.frame for correction in active if correction.kind == "not_missed"]
    return Decided(
        must=tuple(must),
        cannot=tuple(cannot),
        unsure=tuple(pair for pair in unsure if counted.issuperset(pair[:2])),
        undecided=frozenset(undecided),
        removed=frozenset(name for name, polyp in shows.items() if not polyp),
        restored=frozenset(name for name, polyp in shows.items() if polyp),
        missed=tuple(sorted(missed, key=lambda correction: correction.frame or 0)),
        not_missed=frozenset(frame for frame in not_missed if frame is not None),
        set_aside=set_aside,
        undone=frozenset(undone),
        undo=active[-1].id if active else None,
        redo=_to_redo(log, undone),
        done=_is_finished(log, active),
    )


def _is_finished(log: Sequence[Correction], active: Sequence[Correction]) -> bool:
    """Whether the latest answer is `done`, and no earlier one was undone or redone since."""
    if not active or active[-1].kind != "done":
        return False
    position = log.index(active[-1])
    earlier_ids = {line.id for line in log[:position]}
    return all(line.of not in earlier_ids for line in log[position:])


def _to_redo(log: Sequence[Correction], undone: dict[str, None]) -> str | None:
    """The correction that was undone last; None if a new answer was given since."""
    latest = next(reversed(undone), None)
    for line in reversed(log):
        if line.kind == "undo" and line.of == latest:
            return latest
        if line.kind not in ("undo", "redo"):
            return None
    return None


def views_key(tracklets: pl.DataFrame) -> str:
    """Key of the views of one procedure, which changes when a new count has other views."""
    rows = tracklets.select("tracklet_id", "first_frame", "last_frame", "n").sort("tracklet_id")
    return content_key("views", rows.rows())


def split_by_views(
    log: Sequence[Correction], tracklets: pl.DataFrame
) -> tuple[list[Correction], list[Correction]]:
    """Corrections of the present views of a procedure, and those of views that no longer exist.

    Tracklets are numbered, so that another tracklet may have the name of one that was reviewed.

    Args:
        log: The corrections of the procedure, in order.
        tracklets: Its tracklets, before they are cut.
    """
    keys = {views_key(tracklets)}
    # Corrections of earlier versions have no key: they apply if all their tracklets exist.
    reviewed_ids = {
        name.partition("@")[0]  # without the part of a cut tracklet
        for correction in log
        if not correction.views
        for name in (*correction.tracklets, *correction.others, *correction.apart)
    }
    if reviewed_ids <= set(tracklets["tracklet_id"]):
        keys.add("")
    return (
        [correction for correction in log if correction.views in keys],
        [correction for correction in log if correction.views not in keys],
    )


def review_messages(
    log: Sequence[Correction], procedures: Sequence[str], tracklets: pl.DataFrame, command: str
) -> tuple[list[Message], list[Message]]:
    """What a new count says of the corrections that it finds in its folder.

    Args:
        log: All corrections.
        procedures: The counted procedures.
        tracklets: Their tracklets.
        command: The command that writes the corrected count.

    Returns:
        A note that a review exists, and warnings about reviews that are not used; each may be
        missing.
    """
    reviewed_names, outdated_names, absent_names = [], [], []
    for name in dict.fromkeys(correction.procedure for correction in log):
        if name not in procedures:
            absent_names.append(name)
            continue
        rows = tracklets.filter(procedure_id=name)
        of_name = [correction for correction in log if correction.procedure == name]
        current, of_old_views = split_by_views(of_name, rows)
        decided = decide(current, rows["tracklet_id"].to_list())
        if decided.undo is not None:
            reviewed_names.append(name)
        if of_old_views and not decided.done:
            outdated_names.append(name)
    note = Message("review_kept", named_procedures(reviewed_names) | {"command": command})
    warnings = []
    if outdated_names:
        warnings.append(Message("outdated", named_procedures(outdated_names)))
    if absent_names:
        warnings.append(Message("review_absent", named_procedures(absent_names)))
    return [note] if reviewed_names else [], warnings


def applied_corrections(log: Sequence[Correction], decided: Decided) -> list[Correction]:
    """Corrections of polyps that apply: neither undone nor contradicted by later ones."""
    withdrawn = decided.undone | decided.set_aside.keys()
    return [
        correction
        for correction in log
        if correction.kind not in ABOUT_NO_POLYP and correction.id not in withdrawn
    ]


def question_answers(log: Sequence[Correction], decided: Decided) -> list[Correction]:
    """Answers to questions about two tracklets, of the corrections that apply."""
    kinds = ("same", "different", "unsure")
    applied = applied_corrections(log, decided)
    return [correction for correction in applied if correction.kind in kinds and correction.others]


def _replay(log: Sequence[Correction]) -> tuple[dict[str, Correction], dict[str, None]]:
    """Corrections by id, in their order, and ids of those undone, in the order of undoing."""
    undone_ids: dict[str, None] = {}
    corrections: dict[str, Correction] = {}
    for correction in log:
        if correction.kind == "undo" and correction.of in corrections:
            undone_ids[str(correction.of)] = None
        elif correction.kind == "redo":
            undone_ids.pop(str(correction.of), None)
        elif correction.kind not in ("undo", "redo"):
            corrections[correction.id] = correction
    return corrections, undone_ids


def cut_frames(log: Sequence[Correction]) -> dict[str, list[int]]:
    """The cuts of one procedure: tracklet -> first frames of its later parts."""
    corrections, undone = _replay(log)
    frames_by_tracklet: dict[str, list[int]] = {}
    for name, correction in corrections.items():
        if correction.kind == "cut" and name not in undone and correction.frame is not None:
            frames_by_tracklet.setdefault(correction.tracklets[0], []).append(correction.frame)
    return {name: sorted(set(frames)) for name, frames in frames_by_tracklet.items()}


def _groups(must: Sequence[Pair]) -> dict[str, set[str]]:
    """Tracklets that are one polyp by `must`, for each tracklet in it."""
    group_of: dict[str, set[str]] = {}
    for a, b in must:
        together = group_of.get(a, {a}) | group_of.get(b, {b})
        group_of |= dict.fromkeys(together, together)
    return group_of


def _paired_with_first(names: Sequence[str]) -> list[Pair]:
    """Pairs of the first tracklet and each other one, which make one polyp of all."""
    return [(names[0], name) for name in names[1:]]


def _sides(names: Sequence[str], must: Sequence[Pair], cannot: Sequence[Pair]) -> list[list[str]]:
    """Merged tracklets, divided into the sides that later answers separate.

    Args:
        names: The tracklets.
        must: Pairs that show one polyp by later answers.
        cannot: Pairs that show two.

    Returns:
        The sides of at least two tracklets; those of two sides are apart, each from each.
    """
    groups = _groups(must)
    apart = {pair for a, b in cannot for pair in product(groups.get(a, {a}), groups.get(b, {b}))}
    pairs = combinations(names, 2)
    not_apart = [(a, b) for a, b in pairs if (a, b) not in apart and (b, a) not in apart]
    sides = {min(side): side for side in _groups(not_apart).values()}
    return [[name for name in names if name in side] for side in sides.values()]


def _contradiction(must: Sequence[Pair], cannot: Sequence[Pair]) -> set[str]:
    """Tracklets that are one polyp by `must` but include a pair of `cannot`; empty if none."""
    group_of = _groups(must)
    for a, b in cannot:
        if b in group_of.get(a, {a}):
            return group_of[a]
    return set()


def parse_correction(answer: Any, procedure: str, ids: Sequence[str], reviewer: str) -> Correction:
    """A correction from the page, with rows of the procedure as its tracklets.

    Args:
        answer: kind, and `a` and `b`, or `rows` and `others`, or `row`, `others` and `apart`, or
            `of`, as in docs/reference/files.md.
        procedure: The procedure.
        ids: Ids of its tracklets, by row.
        reviewer: Name of the reviewer.

    Raises:
        PolyplinkError: If the answer is incomplete, or has an unknown kind or row.
    """
    hint = "reload the page"
    if not isinstance(answer, dict):
        raise PolyplinkError("a correction is an object", hint)
    kind: Any = answer.get("kind")
    if kind not in KINDS or kind in ("cut", *OF_A_FRAME):
        raise PolyplinkError(f"no kind of correction {str(kind)[:40]!r}", hint)

    def rows(*names: str) -> tuple[str, ...]:
        numbers: list[Any] = []
        for name in names:
            value = answer.get(name, [])
            numbers += value if isinstance(value, list) else [value]
        for row in numbers:
            if type(row) is not int or not 0 <= row < len(ids):
                raise PolyplinkError(f"no tracklet {str(row)[:40]} in {procedure}", hint)
        return tuple(ids[row] for row in dict.fromkeys(numbers))

    target = answer.get("of")
    target = target if isinstance(target, str) else None
    tracklets, others, apart = rows("a", "row", "rows"), rows("b", "others"), rows("apart")
    if set(tracklets) & {*others, *apart}:
        raise PolyplinkError(f"the correction {kind!r} names a tracklet twice", hint)
    try:
        return Correction(
            procedure, kind, tracklets, others, apart, of=target, reviewer=reviewer[:80]
        )
    except ValueError as error:
        raise PolyplinkError(f"the correction {error}", hint) from None
