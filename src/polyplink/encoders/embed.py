"""One vector per tracklet, for tracklets of any length."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.device import memory_suffices, precision
from polyplink.encoders.embeddings import Embeddings
from polyplink.encoders.encoder import Encoder, FrameWise
from polyplink.tracklets import Prepared

Embedder = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""Crops uint8 (n, h, w, 3) of tracklets of the given lengths, packed, to vectors (b, d)."""


def length_groups(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Group tracklets of like length, so that little of a padded batch is padding.

    Args:
        lengths: Frames of each tracklet.
        most_tokens: Bound on (tracklets in a group) x (1 + longest); a longer one goes alone.

    Returns:
        Lists of indices into `lengths`, every index once.
    """
    groups: list[list[int]] = []
    for index in np.argsort(lengths, kind="stable").tolist():
        tokens = 1 + lengths[index]  # ascending, so the newest is the longest
        if groups and tokens * (len(groups[-1]) + 1) <= most_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def equal_groups(lengths: Sequence[int], most_frames: int) -> list[list[int]]:
    """Group tracklets of one length.

    Args:
        lengths: Frames of each tracklet.
        most_frames: Bound on the frames of a group; a longer tracklet goes alone.

    Returns:
        Lists of indices into `lengths`, every index once.
    """
    groups = []
    for length in sorted(set(lengths)):
        rows = [i for i, own in enumerate(lengths) if own == length]
        step = max(most_frames // length, 1)
        groups += [rows[a : a + step] for a in range(0, len(rows), step)]
    return groups


class NetworkEmbedder:
    """An encoder as an `Embedder`.

    Frames of frame-wise encoders go through the backbone packed; clip-wise encoders take
    tracklets of one length together.
    """

    def __init__(
        self, encoder: Encoder, *, frames_per_pass: int = 256, most_tokens: int = 8192
    ) -> None:
        self.encoder = encoder.eval()
        self.frames_per_pass = frames_per_pass
        self.most_tokens = most_tokens

    @torch.inference_mode()
    def __call__(self, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Crops uint8 (n, h, w, 3), packed, to vectors float32 (b, d)."""
        with precision(self.encoder.device), memory_suffices(self.encoder.device):
            if isinstance(self.encoder, FrameWise):
                return self._packed(self.encoder, crops, lengths)
            return self._grouped(crops, lengths)

    def _packed(self, encoder: FrameWise, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        features = self._features(encoder, crops)  # n f
        starts = np.concatenate([[0], np.cumsum(lengths)])
        vectors = np.empty((len(lengths), encoder.width), np.float32)
        for group in length_groups(lengths, self.most_tokens):
            packed = torch.cat([features[starts[i] : starts[i + 1]] for i in group])
            tokens = encoder.aggregate(packed, [lengths[i] for i in group])
            vectors[group] = tokens.tracklet.float().cpu().numpy()
        return vectors

    def _features(self, encoder: FrameWise, crops: np.ndarray) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, f), some frames at a time."""
        blocks = [encoder.encode_frames(self._tensor(block)) for block in self._blocks(crops)]
        return torch.cat(blocks)

    def _grouped(self, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        starts = np.concatenate([[0], np.cumsum(lengths)])
        vectors = np.empty((len(lengths), self.encoder.width), np.float32)
        for group in equal_groups(lengths, self.frames_per_pass):
            packed = np.concatenate([crops[starts[i] : starts[i + 1]] for i in group])
            tokens = self.encoder(self._tensor(packed), [lengths[i] for i in group])
            vectors[group] = tokens.tracklet.float().cpu().numpy()
        return vectors

    def _tensor(self, crops: np.ndarray) -> torch.Tensor:
        # A copy: torch wants writable memory, and a memory map is read-only.
        return torch.from_numpy(np.array(crops)).to(self.encoder.device)

    def _blocks(self, crops: np.ndarray) -> Iterator[np.ndarray]:
        edges = [*range(0, len(crops), self.frames_per_pass), len(crops)]
        return (crops[a:b] for a, b in pairwise(edges))


def colour_histogram(crops: np.ndarray, lengths: Sequence[int], *, bins: int = 8) -> np.ndarray:
    """The baseline without learning: the joint RGB histogram of all pixels of a tracklet.

    Args:
        crops: uint8 (n, h, w, 3), packed.
        lengths: Frames of each of the b tracklets.
        bins: Cells per channel.

    Returns:
        float32 (b, bins^3); every row sums to 1.
    """
    histograms = np.empty((len(lengths), bins**3), np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    for row, (a, b) in enumerate(pairwise(starts)):
        cells = (np.asarray(crops[a:b], dtype=np.int64) * bins) >> 8  # s h w 3
        flat = (cells[..., 0] * bins + cells[..., 1]) * bins + cells[..., 2]
        counts = np.bincount(flat.ravel(), minlength=bins**3)
        histograms[row] = counts / counts.sum()
    return histograms


def embed(
    prepared: Prepared,
    embedder: Embedder,
    weights_id: str,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Embeddings:
    """Embed every prepared tracklet whole (every stride-th frame, any length).

    Args:
        prepared: Tracklets and their crops.
        embedder: What turns the packed crops of a procedure into vectors.
        weights_id: Name of the embedder, kept with the vectors.
        progress: Called with (tracklets done, tracklets in all) after each procedure.

    Raises:
        PolyplinkError: If a vector is not finite.
    """
    table = prepared.tracklets
    if table.is_empty():  # procedures without polyps: nothing to embed, and no mistake
        return Embeddings([], np.zeros((0, 1), np.float32), weights_id, prepared.key)
    parts = []
    for (procedure_id,), rows in table.group_by("procedure_id", maintain_order=True):
        parts.append(embedder(prepared.crops(str(procedure_id)), rows["n_crops"].to_list()))
        if progress is not None:
            progress(sum(map(len, parts)), table.height)
    vectors = np.concatenate(parts)  # n d
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        name = table["tracklet_id"][int(broken[0])]
        raise PolyplinkError(
            f"the vector of tracklet {name} is not finite", "the weights are broken: train again"
        )
    return Embeddings(table["tracklet_id"].to_list(), vectors, weights_id, prepared.key)
