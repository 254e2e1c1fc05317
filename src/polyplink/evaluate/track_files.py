"""Write tracks as MOTChallenge files for TrackEval, and score the files of any tracker."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import file_name, many
from polyplink.data.faults import LEFT_OUT, Faults
from polyplink.data.formats.mot import find_sequences, mot_lines, read_boxes, write_mot
from polyplink.data.tables import DataSet
from polyplink.evaluate.hota import TrackingCounts, score_tracks
from polyplink.evaluate.samples import BoxTracks
from polyplink.tracklets.box_runs import BOX, box_rows
from polyplink.tracklets.prepare import Prepared

BENCHMARK = "polyplink"  # TrackEval: --BENCHMARK polyplink --SPLIT_TO_EVAL PART


def scored_boxes(prepared: Prepared) -> pl.DataFrame:
    """All boxes of tracklets of known polyp, one per polyp and frame.

    Returns:
        procedure_id, tracklet_id, polyp_id, frame, x, y, w, h. If a polyp has two boxes in a frame,
        the box of the earlier tracklet is kept, as in the evaluation.
    """
    tracklets = prepared.tracklets.filter(pl.col("polyp_id").is_not_null())
    rows, tracklet = box_rows(tracklets)
    boxes = prepared.detections.select("procedure_id", "polyp_id", "frame", *BOX)[rows]
    candidates = boxes.hstack(tracklets.select("tracklet_id", "first_frame")[tracklet])
    return (
        candidates.sort("first_frame", maintain_order=True)
        .unique(["procedure_id", "polyp_id", "frame"], keep="first", maintain_order=True)
        .sort("procedure_id", "frame", maintain_order=True)
        .drop("first_frame")
    )


def write_trackeval(out: Path, prepared: Prepared, assignment: pl.DataFrame, part: str) -> None:
    """Write truth and every method's tracks in TrackEval's layout.

    The files are `gt/mot_challenge/polyplink-PART/PROCEDURE/gt/gt.txt` and `seqinfo.ini`,
    `gt/mot_challenge/seqmaps/polyplink-PART.txt`, and
    `trackers/mot_challenge/polyplink-PART/METHOD, CLUSTERER/data/PROCEDURE.txt`, with names
    converted by `polyplink.core.text.file_name`.

    Args:
        out: Folder to write into.
        prepared: The tracklets.
        assignment: Tracks, see `evaluate_embeddings`.
        part: Part of the data set, the name of the split.
    """
    boxes = scored_boxes(prepared)
    names = assignment["procedure_id"].unique(maintain_order=True).to_list()
    data = prepared.data
    files = {name: file_name(name) for name in names}
    in_part = pl.col("procedure_id").is_in(names)
    file_names = pl.col("procedure_id").replace_strict(files)
    boxes = boxes.filter(in_part).with_columns(file_names)
    procedures, polyps = (
        t.filter(in_part).with_columns(file_names) for t in (data.procedures, data.polyps)
    )
    truth = DataSet.of(boxes, procedures, polyps)
    split = f"{BENCHMARK}-{file_name(part)}"
    gt = out / "gt" / "mot_challenge"
    write_mot(truth, gt / split, kind="gt")
    write_text(gt / "seqmaps" / f"{split}.txt", "\n".join(["name", *files.values()]) + "\n")
    trackers = out / "trackers" / "mot_challenge" / split
    for (method, clusterer), rows in assignment.group_by(
        "method", "clusterer", maintain_order=True
    ):
        numbers = rows.select("tracklet_id", pl.col("track") + 1)
        tracks = boxes.join(numbers, on="tracklet_id", maintain_order="left")
        folder = trackers / file_name(f"{method}, {clusterer}") / "data"
        for name in files.values():
            lines = mot_lines(tracks.filter(procedure_id=name), pl.lit(1), (-1, -1, -1))
            write_text(folder / f"{name}.txt", lines)


def _read_tracks(source: Path, kind: str) -> dict[str, BoxTracks]:
    """The tracks in MOTChallenge files, by sequence.

    They are not imported: an import leaves out boxes beyond the frame, which are scored here.

    Args:
        source: See `import_mot`.
        kind: "gt" or "det".
    """
    faults, tracks = Faults(), {}
    for sequence in find_sequences(source, kind, faults):
        rows = read_boxes(sequence, faults).select("frame", "track", *BOX)
        frame = pl.col("frame")
        is_incomplete = pl.any_horizontal(pl.col("frame", *BOX).is_null())
        is_incomplete |= ~frame.is_finite() | (frame != frame.floor())
        incomplete = rows.select(is_incomplete.sum()).item()
        nameless = rows["track"].null_count()
        for count, lack in ((incomplete, "a frame and four sides"), (nameless, "a track")):
            if count:
                raise PolyplinkError(
                    f"{sequence.path}: {many(count, 'box')} of {sequence.name} without {lack}",
                    "give every box a frame, the id of its track, and its sides",
                )
        box = rows.select(BOX).to_numpy()
        tracks[sequence.name] = BoxTracks.of(
            rows["frame"].to_numpy(), rows["track"].to_numpy(), box
        )
    unreadable = [str(message) for message in faults.messages if message.kind == LEFT_OUT]
    if unreadable:
        raise PolyplinkError(f"{source}: {unreadable[0]}", "correct the file")
    return tracks


def score_files(truth: Path, tracker: Path) -> Mapping[str, TrackingCounts]:
    """Score any tracker's MOTChallenge files, sequence by sequence; see `tracking_figures`.

    Args:
        truth: Folder of `<sequence>/gt/gt.txt`.
        tracker: Folder of `<sequence>.txt`; the file of a sequence without a box is empty.

    Raises:
        PolyplinkError: If a file is missing or broken, or a box has no track.
    """
    counts = {}
    for name, tracks in _read_tracks(truth, "gt").items():
        path = tracker / f"{name}.txt"
        if not path.is_file():
            raise PolyplinkError(f"no {path}", "write one file per sequence")
        counts[name] = score_tracks(tracks, _read_tracks(path, "det")[name])
    return counts
