"""A counted folder, opened for review: its state, and the effects of corrections.

The desk reads count.json and vectors.parquet, which `count` wrote, and the data folder that was
counted. Each answer is appended to the log of corrections; then the procedure is linked again, with
all decisions as constraints.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from polyplink.associate.identities import identify
from polyplink.associate.similarity import unit_rows
from polyplink.core.artefacts import file_state
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import in_every_language
from polyplink.core.text import rounded_probability
from polyplink.counting.corrections import (
    LOG,
    Correction,
    append_correction,
    applied_corrections,
    check_text,
    cut_frames,
    decide,
    parse_correction,
    read_corrections,
    split_by_views,
    views_key,
)
from polyplink.counting.count_folder import counted_folder
from polyplink.counting.link import alike_together, vectors_of, views_to_link
from polyplink.counting.result import FILE, Count
from polyplink.data.files.images import data_uri
from polyplink.data.vocabulary import is_simulated
from polyplink.encoders.encode import read_embeddings
from polyplink.serve.cut_tracklets import PartVectors, cut_rows
from polyplink.serve.pictures import PICTURES_CACHED, Mask, Pictures, parse_mask
from polyplink.serve.possible_misses import Place, possible_misses
from polyplink.serve.solved import (
    Solved,
    chances_of,
    constraints_of,
    corrected_messages,
    doubts_answered,
    doubts_of,
    log_rows,
    question_facts,
    rows_left,
    split_polyps,
    whole_polyps,
)
from polyplink.tracklets.box_runs import box_rows, frame_rates, seconds
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.scenes import read_scenes

if TYPE_CHECKING:
    from polyplink.scale.index import Index

VECTORS = "vectors.parquet"
PROBES = ("size", "adenoma")
SIMILAR = 12  # number of similar views shown


class CountChangedError(PolyplinkError):
    """The folder of a desk has another count than the one that was opened, or none."""


class Desk:
    """A folder that `count` or `run` wrote, opened for review.

    Args:
        folder: A folder with count.json and vectors.parquet, or with such a subfolder `count`.
        data: The data folder that was counted; by default the one that count.json names.
        reviewer: Name for the log.
        masks: Rectangles that are black in every picture, pixels of the recording.
        field: Whether everything outside the endoscope's visible field is black in pictures.
        index: Folder of an index, which is also searched for similar views.

    Raises:
        PolyplinkError: If the folder holds no count, the data folder is not the one that was
            counted, or the index is of other weights.

    Example:
        >>> desk = Desk(Path("out"))  # doctest: +SKIP
        >>> desk.procedure(0)["polyps"]  # doctest: +SKIP
        5
        >>> desk.correct(0, {"kind": "same", "a": 3, "b": 7})["polyps"]  # doctest: +SKIP
        4
    """

    def __init__(
        self,
        folder: Path,
        data: Path | None = None,
        reviewer: str = "",
        masks: Sequence[Mask] = (),
        index: Path | None = None,
        *,
        field: bool = False,
    ) -> None:
        check_text(reviewer, "--reviewer")
        self.out, self.reviewer = counted_folder(folder), reviewer
        self._opened = file_state(self.out / FILE)
        self.count = Count.read(self.out)
        self.names = [procedure.procedure_id for procedure in self.count.procedures]
        self.data = data or self._data_folder()
        self.prepared = self._prepared()
        self.point = self.count.point
        self.rates = frame_rates(self.prepared.data.procedures)
        self.pictures = Pictures(self.prepared, self.data, masks, field=field)
        self.index = None if index is None else self._indexed_by(index)
        self.parts = PartVectors(self.out, self.count, self.prepared)
        self._alarms = {
            procedure.procedure_id: {alarm.tracklet_id for alarm in procedure.alarms}
            for procedure in self.count.procedures
        }
        self.lock = RLock()
        self._log: tuple[int, list[Correction]] = (-1, [])
        self._holds_log = False
        self._solved: dict[int, tuple[int, Solved]] = {}  # with the number of corrections
        self.possible_misses = cache(self._possible_misses)
        self._unit_vectors = cache(lambda: unit_rows(self.vectors))
        self.place = lru_cache(PICTURES_CACHED)(self._place)

    def _indexed_by(self, folder: Path) -> "Index":
        from polyplink.scale.index import Index  # noqa: PLC0415 - compiles code, rarely used

        index = Index(folder)
        index.check(self.count.weights)
        return index

    def _data_folder(self) -> Path:
        if self.count.data is None:
            raise PolyplinkError(
                f"{self.out / FILE} names no data folder", "count again, or give it with --data"
            )
        folder = Path(os.path.normpath(self.out / str(self.count.data)))
        if not folder.is_dir():
            raise PolyplinkError(
                f"the data folder {folder} is missing",
                "move it back, or give it with --data (`polyplink review` and `hand-off`)",
            )
        return folder

    def _prepared(self) -> Prepared:
        """The tracklets that were counted."""
        settings = self.count.tracklets
        prepared = prepare(self.data, settings, procedures=self.names, with_crops=False)
        if prepared.key != self.count.crops:
            raise PolyplinkError(
                f"{self.data} has changed since it was counted, or an older polyplink counted it",
                "count again, or give the folder that was counted with --data",
            )
        return prepared

    @cached_property
    def vectors(self) -> np.ndarray:
        """Vectors (t, d) of all tracklets, in the order of `prepared.tracklets`.

        Raises:
            PolyplinkError: If the file is missing, or a tracklet is missing in it.
        """
        return vectors_of(self.prepared, read_embeddings(self.out / VECTORS, "count again"))

    def row_vectors(self, table: pl.DataFrame, *, unit: bool = False) -> np.ndarray:
        """Vectors (r, d) of rows, scaled if `unit`; parts of cut tracklets are embedded again."""
        all_vectors = self._unit_vectors() if unit else self.vectors
        vectors: np.ndarray = all_vectors[table["place"].to_numpy()]
        for i in table["whole"].is_duplicated().arg_true().to_list():
            with suppress(PolyplinkError):  # without weights or crops: vector of the whole tracklet
                part = self.parts.of(table.row(i, named=True))
                vectors[i] = unit_rows(part[None])[0] if unit else part
        return vectors

    @cached_property
    def _area(self) -> np.ndarray:
        """Area of every box in square pixels, in the order of `prepared.detections`."""
        return self.prepared.detections.select(pl.col("w") * pl.col("h")).to_series().to_numpy()

    def version(self) -> int:
        """Size of the log of corrections, which changes with every answer on any page.

        Raises:
            CountChangedError: If the folder has another count now, or none.
        """
        if file_state(self.out / FILE) != self._opened:
            raise CountChangedError(
                f"{self.out} holds another count now, or none", "start `polyplink review` again"
            )
        path = self.out / LOG
        return path.stat().st_size if path.is_file() else 0

    def log(self) -> list[Correction]:
        """All corrections so far, including those of other pages."""
        with self.lock:
            version = self.version()
            if version != self._log[0] and not self._holds_log:
                self._log = (version, read_corrections(self.out))
            return self._log[1]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Keep the corrections of this moment until the block ends, whatever other pages add."""
        with self.lock:
            self.log()
            self._holds_log = True
            try:
                yield
            finally:
                self._holds_log = False

    def solve(self, index: int) -> Solved:
        """Link a procedure under its corrections, or return the cached result.

        Raises:
            PolyplinkError: If there is no such procedure.
        """
        if not (0 <= index < len(self.names)):
            raise PolyplinkError(f"no procedure {index} of {len(self.names)}", "reload")
        name = self.names[index]
        with self.lock:
            log = [correction for correction in self.log() if correction.procedure == name]
            cached = self._solved.get(index)
            if cached is None or cached[0] != len(log):
                self._solved[index] = len(log), self._solve(name, log)
            return self._solved[index][1]

    def _uncut(self, name: str) -> pl.DataFrame:
        """The tracklets of a procedure in temporal order, before they are cut."""
        return (
            self.prepared.tracklets.with_row_index("place")
            .filter(pl.col("procedure_id") == name)
            .sort("first_frame", maintain_order=True)
        )

    def _solve(self, name: str, log: list[Correction]) -> Solved:
        table = self._uncut(name)
        log, of_old_views = split_by_views(log, table)
        table = cut_rows(table, cut_frames(log), self.prepared)
        ids = table["tracklet_id"].to_list()
        decided = decide(log, ids)
        outdated = bool(of_old_views) and not decided.done
        alarms = table.filter(pl.col("whole").is_in(list(self._alarms[name])))["tracklet_id"]
        left_out = ({*alarms} - decided.restored) | decided.removed
        counted = [row for row, tracklet_id in enumerate(ids) if tracklet_id not in left_out]
        polyps: list[int | None] = [None] * len(ids)
        before = self.count.procedures[self.names.index(name)]
        answered = doubts_answered(before, log, decided)
        solved = Solved(table, log, outdated, decided, counted, polyps, answered)
        if not counted:
            return solved._replace(doubtful=doubts_of(before, table, polyps, decided))
        counted_table = table[counted]
        vectors = self.row_vectors(table)[counted]
        views = views_to_link(self.prepared, counted_table, vectors)
        constraints = constraints_of(decided, counted_table["tracklet_id"].to_list())
        identities = identify(views, counted_table["position"].to_numpy(), self.point, constraints)
        for row, label in zip(counted, identities.labels.tolist(), strict=True):
            polyps[row] = label
        _, apart = constraints.closure(len(counted))
        alike = alike_together(self.point, views, identities.labels, apart)
        doubtful = doubts_of(before, table, polyps, decided)
        return solved._replace(views=views, identities=identities, alike=alike, doubtful=doubtful)

    def _duration(self, name: str) -> float:
        """Length of the recording, seconds."""
        return float(round(self.pictures.procedures[name]["n_frames"] / self.rates[name], 2))

    def _times_in_view(self, name: str, table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of tracklets in seconds, with the time of their last frame."""
        start, last = seconds(table, self.prepared.data.procedures).T
        return start, last + 1 / self.rates[name]

    def correct(
        self, index: int, correction: Mapping[str, Any], reviewer: str | None = None
    ) -> dict[str, Any]:
        """Record an answer and link the procedure again.

        Args:
            index: Index of the procedure.
            correction: The answer, see `corrections.parse_correction`.
            reviewer: Name of the reviewer; by default that of the desk.

        Returns:
            The new state of the procedure, see `procedure`, and `split`: the rows of each polyp
            that the answer was not about and that is no longer one polyp.

        Raises:
            PolyplinkError: If the answer is incomplete, or the log cannot be written.
        """
        with self.lock:
            solved = self.solve(index)
            answer: dict[str, Any] = dict(correction)
            if answer.get("tracklets", solved.table.height) != solved.table.height:
                raise PolyplinkError(
                    "another page has cut a tracklet, so the rows of this answer have moved",
                    "reload the page",
                )
            if answer.get("kind") == "move":
                answer["apart"] = rows_left(answer, solved.polyps)
            if answer.get("kind") == "merge" and isinstance(answer.get("rows"), list):
                answer["rows"] = whole_polyps(answer["rows"], solved.polyps)
            ids, reviewer_name = solved.table["tracklet_id"].to_list(), reviewer or self.reviewer
            if answer.get("kind") == "cut":
                entry = self._cut(index, answer, reviewer_name)
            elif answer.get("kind") == "missed":
                entry = self._missed(index, answer, reviewer_name)
            elif answer.get("kind") == "not_missed":
                entry = self._not_missed(index, answer, reviewer_name)
            else:
                entry = parse_correction(answer, self.names[index], ids, reviewer_name)
            key = views_key(self._uncut(self.names[index]))
            append_correction(self.out, replace(solved.noted(entry), views=key))
            split = split_polyps(entry, solved, self.solve(index))
            return self.procedure(index) | {"split": split}

    def _cut(self, index: int, answer: Mapping[str, Any], reviewer: str) -> Correction:
        """Cut the tracklet `row` before its k-th picture, or its first from `frame` on, else last.

        Raises:
            PolyplinkError: If one part would have no picture, or the parts cannot be embedded.
        """
        numbers = [answer.get(name, 0) for name in ("row", "k", "frame")]
        if not all(type(number) is int for number in numbers) or "row" not in answer:
            raise PolyplinkError("the correction 'cut' is not complete", "reload the page")
        row, stride = self._row(index, numbers[0]), self.prepared.settings.stride
        frames = self.prepared.detections["frame"][row["offset"] : row["offset"] + row["n"]]
        picture_frames = frames.to_numpy()[::stride]
        k = numbers[1] if "k" in answer else int(np.searchsorted(picture_frames, numbers[2]))
        if "k" not in answer and numbers[2] <= row["last_frame"]:  # after the last picture: at it
            k = min(k, row["n_crops"] - 1)
        if not (0 < k < row["n_crops"]):
            raise PolyplinkError(
                f"one part of {row['tracklet_id']} would have no picture",
                "split it between two of its pictures",
            )
        frame, uncut_id = int(picture_frames[k]), str(row["whole"])
        log = self.solve(index).log
        frames_of_cuts = {
            name: [*at, frame] if name == uncut_id else at for name, at in cut_frames(log).items()
        }
        uncut = self.prepared.tracklets.filter(pl.col("tracklet_id") == uncut_id)
        for part in cut_rows(uncut, {uncut_id: [frame]} | frames_of_cuts, self.prepared).iter_rows(
            named=True
        ):
            self.parts.of(part)
        parts = (str(row["tracklet_id"]), f"{uncut_id}@{frame}")
        return Correction(
            self.names[index], "cut", (uncut_id,), parts, frame=frame, reviewer=reviewer[:80]
        )

    def _missed(self, index: int, answer: Mapping[str, Any], reviewer: str) -> Correction:
        """A polyp that has no tracklet, in view in the frame `frame` of the recording.

        Raises:
            PolyplinkError: If there is no such frame, or a polyp was added in it, as by another
                page at the same time.
        """
        name, frame = self.names[index], answer.get("frame")
        n_frames = self.pictures.procedures[name]["n_frames"]
        if type(frame) is not int or not (0 <= frame < n_frames):
            raise PolyplinkError(f"no frame {str(frame)[:40]} in {name}", "reload the page")
        if not all(missed.frame != frame for missed in self.solve(index).decided.missed):
            raise PolyplinkError(
                f"a polyp is already added in frame {frame} of {name}",
                "add another in a frame beside it",
            )
        return Correction(name, "missed", frame=frame, reviewer=reviewer[:80])

    def _not_missed(self, index: int, answer: Mapping[str, Any], reviewer: str) -> Correction:
        """That no polyp was missed at the place in the frame `frame`.

        Raises:
            PolyplinkError: If there is no such place, or it was answered, as by another page at
                the same time.
        """
        name, frame = self.names[index], answer.get("frame")
        added = {missed.frame for missed in self.solve(index).decided.missed}
        frames = {place.frame for place in self.places(index)} - added
        if type(frame) is not int or frame not in frames:
            raise PolyplinkError(
                f"no open place in frame {str(frame)[:40]} of {name}", "reload the page"
            )
        return Correction(name, "not_missed", frame=frame, reviewer=reviewer[:80])

    @cached_property
    def _boxes(self) -> pl.DataFrame:
        """All boxes, and the number of the `tracklet` of each, see `possible_misses`."""
        detections = self.prepared.detections
        tracklet = np.full(detections.height, -1)
        rows, tracklet_of_row = box_rows(self.prepared.tracklets)
        tracklet[rows] = tracklet_of_row
        return detections.with_columns(tracklet=pl.Series(tracklet).replace(-1, None))

    def _possible_misses(self, index: int) -> list[Place]:
        """The places of a procedure at which the detector may have missed a polyp."""
        boxes = self._boxes.filter(procedure_id=self.names[index])
        tracks, scenes = self.prepared.settings.tracks, read_scenes(self.data)
        return possible_misses(boxes, tracks, self.rates, scenes)

    def places(self, index: int) -> list[Place]:
        """These places, without those that the reviewer dismissed."""
        dismissed = self.solve(index).decided.not_missed
        return [place for place in self.possible_misses(index) if place.frame not in dismissed]

    def _warnings(self) -> dict[str, list[str]]:
        """The warnings of the corrected count by language."""
        solved = {name: self.solve(index) for index, name in enumerate(self.names)}
        return in_every_language(corrected_messages(self.count, solved))

    def overview(self) -> dict[str, Any]:
        """Counts of all procedures, for the first page."""
        version = self.version()  # first: a later answer must be noticed
        procedures = []
        for index in range(len(self.names)):
            solved = self.solve(index)
            procedures.append(
                self._summary(index, solved)
                | {
                    "tracklets": len(solved.counted),
                    "alarms": solved.table.height - len(solved.counted),
                    "questions": solved.n_open,
                    "answered": solved.answered,
                    "conflicts": len(solved.decided.set_aside),
                }
            )
        names = self.prepared.data.procedures["dataset"]
        return {
            "title": ", ".join(names.unique().sort().to_list()),
            "version": version,
            "simulated": any(map(is_simulated, names)),
            "basis": in_every_language([] if self.count.basis is None else [self.count.basis]),
            "ask_below": self.point.ask_below,
            "links": self.point.links is not None,
            "warnings": self._warnings(),
            "reviewer": self.reviewer,
            "purpose": self.count.purpose,
            "probes": [name for name in PROBES if getattr(self.point, name) is not None],
            "probes_simulated": any(probe.simulated for probe in self.point.probes),
            "polyps": sum(procedure["polyps"] for procedure in procedures),
            "done": sum(procedure["done"] for procedure in procedures),
            "procedures": procedures,
        }

    def _summary(self, index: int, solved: Solved) -> dict[str, Any]:
        """What both the first page and the page of a procedure show of it."""
        low, high = solved.interval
        return {
            "index": index,
            "id": self.names[index],
            "duration_s": self._duration(self.names[index]),
            "polyps": solved.n_polyps,
            "low": low,
            "high": high,
            "corrections": len(applied_corrections(solved.log, solved.decided)),
            "corrected": solved.corrected,
            "done": solved.decided.done,
            "outdated": solved.outdated,
        }

    def procedure(self, index: int) -> dict[str, Any]:
        """The state of a procedure (polyps, questions, conflicts, log), as JSON-ready values."""
        version = self.version()  # first: a later answer must be noticed
        solved, name = self.solve(index), self.names[index]
        row = self.pictures.procedures[name]
        tracklets = self._tracklets(solved, name)
        return self._summary(index, solved) | {
            "version": version,
            "warnings": self._warnings(),
            "fps": row["fps"],
            "n_frames": row["n_frames"],
            "width": row["width"],
            "height": row["height"],
            "recording": self.pictures.has_frames(name),
            "any_frame": self.pictures.any_frame(name),
            "groups": self._groups(solved, tracklets),
            "missed": [
                {"id": missed.id, "frame": missed.frame, "at_s": missed.seconds(self.rates[name])}
                for missed in solved.decided.missed
            ],
            "tracklets": tracklets,
            "questions": question_facts(solved, tracklets, self.point),
            "places": [
                {
                    "frame": place.frame,
                    "at_s": round(place.frame / self.rates[name], 2),
                    "box": [round(side, 1) for side in place.box],
                }
                for place in self.places(index)
            ],
            "conflicts": [
                {"correction": correction_id, "with": list(later_ids)}
                for correction_id, later_ids in solved.decided.set_aside.items()
            ],
            "log": log_rows(solved, self.rates[name]),
            "undo": solved.decided.undo,
            "redo": solved.decided.redo,
        }

    def _groups(
        self, solved: Solved, tracklets: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The linked polyps of a procedure for the page; `rows` are the rows of its tracklets."""
        if solved.views is None or solved.identities is None:
            return []
        readings = self.point.read(solved.views.vectors, solved.identities.labels)
        groups = []
        for place, polyp_name in enumerate(solved.identities.names):
            rows = [i for i, polyp in enumerate(solved.polyps) if polyp == place]
            rows.sort(key=lambda i: tracklets[i]["start_s"])  # parts of a tracklet come last
            probabilities = [tracklets[i]["probability"] for i in rows]
            groups.append(
                {
                    "name": polyp_name,
                    "rows": rows,
                    "first_s": min(tracklets[i]["start_s"] for i in rows),
                    "last_s": max(tracklets[i]["end_s"] for i in rows),
                    "probability": None
                    if None in probabilities
                    else rounded_probability(float(np.mean(probabilities))),
                    "best": max(rows, key=lambda i: tracklets[i]["area"]),
                    **asdict(readings[place]),
                }
            )
        return groups

    def _tracklets(self, solved: Solved, name: str) -> list[dict[str, Any]]:
        """The tracklets of a procedure for the page; `area` is that of the largest box, pixels."""
        start, end = self._times_in_view(name, solved.table)
        stride = self.prepared.settings.stride
        scores: list[float | None] = [None] * solved.table.height
        if solved.identities is not None:
            for i, score in zip(solved.counted, solved.identities.scores.tolist(), strict=True):
                scores[i] = None if np.isnan(score) else rounded_probability(score)
        pairs = (*solved.decided.must, *solved.decided.cannot)
        decided = {i for pair in pairs for i in pair} | solved.decided.restored
        chance = chances_of(self.count.procedures[self.names.index(name)])
        entries = []
        for i, row in enumerate(solved.table.iter_rows(named=True)):
            boxes = self._area[row["offset"] : row["offset"] + row["n"] : stride][: row["n_crops"]]
            tracklet_id = row["tracklet_id"]
            left_out = (
                row["whole"] in self._alarms[name] and tracklet_id not in solved.decided.restored
            )
            entries.append(
                {
                    "row": i,
                    "id": tracklet_id,
                    "polyp": solved.polyps[i],
                    "start_s": round(float(start[i]), 2),
                    "end_s": round(float(end[i]), 2),
                    "first_frame": row["first_frame"],
                    "last_frame": row["last_frame"],
                    "boxes": row["n"],
                    "bridged": round(float(row["bridged"]), 4),
                    "probability": scores[i],
                    "shows_polyp": chance.get(row["whole"]),
                    "pictures": row["n_crops"],
                    "best": int(boxes.argmax()),
                    "area": float(boxes.max()),
                    "alarm": left_out,
                    "removed": tracklet_id in solved.decided.removed,
                    "decided": tracklet_id in decided,
                }
            )
        return entries

    def picture(self, index: int, row: int, k: int, size: int) -> bytes:
        """The k-th picture of a tracklet as JPEG, at most `size` pixels wide and high.

        Raises:
            PolyplinkError: If there is no such picture.
        """
        tracklet = self._row(index, row)
        if not (0 <= k < tracklet["n_crops"]):
            raise PolyplinkError(f"no picture {k} of tracklet {row}", "reload")
        return self.pictures.view(
            self.names[index], tracklet["place"], k + tracklet["skipped"], size
        )

    def frame(self, index: int, frame: int, size: int | None = None) -> bytes:
        """A frame of the recording as JPEG, at most `size` pixels wide and high.

        Raises:
            PolyplinkError: If the frame cannot be read.
        """
        self.solve(index)
        return self.pictures.frame(self.names[index], frame, size)

    def _place(self, index: int, frame: int, size: int) -> bytes:
        """The place of a frame at which a polyp may have been missed, else the frame, as JPEG.

        Raises:
            PolyplinkError: If there is no such frame, or it cannot be read.
        """
        self.solve(index)
        for place in self.possible_misses(index):
            if place.frame == frame:
                name = self.names[index]
                return self.pictures.patch(name, self.pictures.image(name, frame), place.box, size)
        return self.frame(index, frame, size)

    def boxes(self, index: int, row: int) -> dict[str, Any]:
        """The boxes of a tracklet, [frame, x, y, w, h], in pixels."""
        tracklet = self._row(index, row)
        table = self.prepared.detections[tracklet["offset"] : tracklet["offset"] + tracklet["n"]]
        rounded = table.select("frame", *(pl.col(side).round(1) for side in "xywh"))
        return {"boxes": [list(box) for box in rounded.rows()]}

    def similar(self, index: int, row: int, k: int = SIMILAR) -> list[dict[str, Any]]:
        """The k views of the same procedure that are most similar to a view, then the k of others.

        The parts of a cut view are views too. They are followed by views of the index, which have
        `picture`, a data URI, in place of `row` and for which `index` is None.
        """
        self._row(index, row)  # refuses an unknown one
        tables = [self.solve(i).table for i in range(len(self.names))]
        places = [(i, other) for i, table in enumerate(tables) for other in range(table.height)]
        vectors = np.concatenate([self.row_vectors(table, unit=True) for table in tables])
        query = vectors[places.index((index, row))]
        cosines = vectors @ query
        order = np.argsort(-cosines, kind="stable")
        views = [(*places[at], cosines[at]) for at in order if places[at] != (index, row)]
        same_procedure = [view for view in views if view[0] == index]
        others = [view for view in views if view[0] != index]
        entries = []
        for i, other_row, cosine in [*same_procedure[:k], *others[:k]]:
            start, end = self._times_in_view(self.names[i], tables[i])
            entries.append(
                {
                    "index": i,
                    "id": self.names[i],
                    "row": other_row,
                    "k": int(tables[i]["n_crops"][other_row]) // 2,
                    "polyp": self.solve(i).polyps[other_row],
                    "start_s": round(float(start[other_row]), 2),
                    "end_s": round(float(end[other_row]), 2),
                    "similarity": round(float(cosine), 4),
                }
            )
        return entries + self._search_index(query, k)

    def _search_index(self, query: np.ndarray, k: int) -> list[dict[str, Any]]:
        """The k views of the index most similar to a vector, except those of this folder."""
        if self.index is None:
            return []
        from polyplink.scale.index import SIDES, picture_of  # noqa: PLC0415

        elsewhere = ~pl.col("procedure_id").is_in(self.names)
        entries = []
        for row in self.index.search(query, k, elsewhere).iter_rows(named=True):
            crop, region = picture_of(self.index.folder, row), [row[side] for side in SIDES]
            jpeg = b"" if crop is None else self.pictures.masked_crop(crop, region, len(crop))
            entry = {name: row[name] for name in ("start_s", "end_s", "size_mm", "histology")}
            entry |= {"index": None, "id": row["procedure_id"], "tracklet": row["tracklet_id"]}
            entry["picture"] = data_uri(jpeg) if jpeg else None
            entries.append(entry | {"similarity": round(row["similarity"], 4)})
        return entries

    def _row(self, index: int, row: int) -> dict[str, Any]:
        """A row of a procedure's table of tracklets."""
        table = self.solve(index).table
        if not (0 <= row < table.height):
            raise PolyplinkError(f"no tracklet {row}", "reload the page")
        tracklet: dict[str, Any] = table.row(row, named=True)
        return tracklet


def open_desk(
    folder: Path,
    data: Path | None,
    masks: Sequence[str],
    *,
    reviewer: str = "",
    index: Path | None = None,
) -> Desk:
    """A desk with masks as given on the command line.

    Args:
        folder: The counted folder.
        data: The data folder that was counted; None for the one that count.json names.
        masks: Rectangles as "LEFT,TOP,WIDTH,HEIGHT", and "field", see `Desk`.
        reviewer: Name for the log.
        index: Folder of an index.

    Raises:
        PolyplinkError: If a mask is not a rectangle, or for the reasons listed at `Desk`.
    """
    rectangles = [parse_mask(mask) for mask in masks if mask != "field"]
    return Desk(folder, data, reviewer, rectangles, index, field="field" in masks)
