"""Prepared tracklets with known polyps as samples of an evaluation."""

from collections.abc import Mapping, Sequence

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.encode import embed, fragment_table
from polyplink.encoders.load import NamedEncoder
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples, TrackletBoxes
from polyplink.tracklets.box_runs import box_frames, box_rows, seconds
from polyplink.tracklets.prepare import Prepared

ENOUGH_TRACKLETS = 64  # in the sample on which precisions are compared


def precision_effect(prepared: Prepared, encoders: Sequence[NamedEncoder]) -> dict[str, float]:
    """Retrieval mAP of encoders that differ in precision, on a sample of a part.

    Args:
        prepared: The part; its first procedures that together have `ENOUGH_TRACKLETS` are embedded.
        encoders: The encoders; each embeds the sample.

    Returns:
        mAP by precision; empty if no polyp of the sample is known or has two tracklets.
    """
    counts = prepared.tracklets.group_by("procedure_id", maintain_order=True).len()
    enough = (counts["len"].cum_sum() - counts["len"]) < ENOUGH_TRACKLETS
    sample = prepared.select(counts["procedure_id"].filter(enough).to_list())
    try:
        samples = samples_of(sample)
    except PolyplinkError:
        return {}
    vectors = {
        encoder.precision: embed(sample, encoder.embedder, encoder.key).vectors
        for encoder in encoders
    }
    mean_aps = {name: retrieve(rows, samples).mean_ap for name, rows in vectors.items()}
    return {name: value for name, value in mean_aps.items() if value is not None}


def mean_aps_text(mean_ap: Mapping[str, float]) -> list[str]:
    """The effect of a precision on retrieval in one line; no line if it was not measured.

    Example:
        >>> mean_aps_text({"float32": 0.39911, "bf16": 0.39904})
        ['mAP on a sample: float32 0.3991, bf16 0.3990']
    """
    values = ", ".join(f"{name} {value:.4f}" for name, value in mean_ap.items())
    return [f"mAP on a sample: {values}"] if mean_ap else []


def samples_of(
    prepared: Prepared,
    clip: int | None = None,
    *,
    options: str = "--min-length, --max-gap or --min-iou",
) -> Samples:
    """Tracklets, or fragments of `clip` crops, as samples for the tasks of `evaluate`.

    Args:
        prepared: The part.
        clip: Crops of a fragment; None for whole tracklets.
        options: The command's options that keep shorter tracklets, named if there is none.

    Raises:
        PolyplinkError: If the part has no procedure, no tracklet or no known polyp.
    """
    table = prepared.tracklets if clip is None else fragment_table(prepared, clip)
    if not prepared.procedures:
        raise PolyplinkError("the part has no procedure to evaluate", "give another --part")
    if table.is_empty():
        raise PolyplinkError(
            f"no tracklet of {prepared.settings.min_length} boxes or more to evaluate on",
            f"give another --part, or {options}: `polyplink doctor` shows how many tracklets "
            "their values keep",
        )
    if table["polyp_id"].is_null().all():
        raise PolyplinkError(
            "table detections: column polyp_id is empty, and evaluation needs true polyps",
            "give labelled procedures, or use `polyplink count`",
        )
    name, moments, frames = "fragment_id", None, None
    if clip is None:  # learned links, which need times, link tracklets only
        name, moments = "tracklet_id", seconds(table, prepared.data.procedures)
        frames = box_frames(table, prepared.detections)
    return Samples.of(
        table[name].to_list(),
        table["procedure_id"].to_list(),
        table["polyp_id"].to_list(),
        table["position"].to_numpy(),
        {
            procedure: max(last - first, 1)
            for procedure, first, last in prepared.spans.procedures.rows()
        },
        moments,
        frames,
    )


def tracklet_boxes(prepared: Prepared, samples: Samples) -> TrackletBoxes:
    """All boxes of all tracklets, in the order of the tracklets.

    Args:
        prepared: The tracklets.
        samples: The same tracklets, from `samples_of`.
    """
    rows, tracklet = box_rows(prepared.tracklets)
    boxes = prepared.detections.select("frame", "x", "y", "w", "h")[rows]
    return TrackletBoxes(
        samples.polyp,
        np.searchsorted(tracklet, np.arange(prepared.tracklets.height + 1)),
        boxes["frame"].to_numpy().astype(np.int64),
        boxes.select("x", "y", "w", "h").to_numpy().astype(np.float64),
    )


def tracklet_adenomas(prepared: Prepared) -> list[bool | None]:
    """Whether the polyp of each tracklet is an adenoma; None if unknown.

    Raises:
        PolyplinkError: If a data set with histology has no map, or a term is not in its map.
    """
    data = prepared.data
    by_polyp = dict(zip(data.polyps["polyp_id"], data.adenoma_labels(), strict=True))
    labels = [by_polyp.get(polyp) for polyp in prepared.tracklets["polyp_id"]]
    return [None if label is None else bool(label) for label in labels]
