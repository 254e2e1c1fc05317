"""Embedding: the crops of each tracklet or fragment to one vector, and cached vectors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import torch

from polyplink.core.errors import PolyplinkError, say_remade
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.sharing import claimed, rounds
from polyplink.encoders.device import default_precision, memory_suffices, precision
from polyplink.encoders.encoder import Encoder, FrameWise, Tokens
from polyplink.encoders.folding import folded
from polyplink.encoders.vectors import Embeddings, read_embeddings, write_embeddings
from polyplink.tracklets.crops import release_pages
from polyplink.tracklets.prepare import Prepared

Embedder = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""Crops uint8 (n, h, w, 3) of tracklets of the given lengths, packed, to vectors (b, d)."""
WithCrops = Callable[[Prepared], AbstractContextManager[Prepared]]
"""Provides the crops of a part with one procedure while it is embedded."""


BLOCK_BYTES = 256 << 20  # of the crops of tracklets that are embedded at once
BLOCK_FRAGMENTS = 64  # embedded at once: with 8 crops of 232 pixels, 80 MB
PIXELS_PER_PASS = 16 * 224 * 224  # of crops that pass through the backbone together on a CPU


def length_groups(
    lengths: Sequence[int], max_tokens: int, *, beside: int = 0, equal: bool = False
) -> list[list[int]]:
    """Group tracklets of similar length, so that padded batches contain little padding.

    Args:
        lengths: Number of frames of each tracklet.
        max_tokens: Upper bound of (tracklets in a group) x (beside + longest); a tracklet that
            exceeds it forms a group by itself.
        beside: Number of tokens of a tracklet in addition to its frames.
        equal: Group only tracklets of equal length.

    Returns:
        Lists of indices into `lengths`, every index once.
    """
    groups: list[list[int]] = []
    for index in np.argsort(lengths, kind="stable").tolist():
        tokens = beside + lengths[index]  # ascending, so the newest is the longest
        fits = groups and tokens * (len(groups[-1]) + 1) <= max_tokens
        if fits and not (equal and lengths[groups[-1][0]] != lengths[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


class NetworkEmbedder:
    """An encoder as an `Embedder`.

    Frames of frame-wise encoders pass through the backbone packed; clip-wise encoders take batches
    of tracklets of equal length.

    Args:
        encoder: The encoder; it is set to evaluation mode.
        frames_per_pass: Number of frames that pass through the backbone together.
        most_tokens: Number of tokens, including padding, that are aggregated together.
        compute: Precision, "float32" or "bf16"; None for the default of its device.
        frozen: Whether the encoder's weights will not change. Then, on a CPU in float32, a faster
            copy is used (`folded`).
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        frames_per_pass: int = 256,
        most_tokens: int = 8192,
        compute: str | None = None,
        frozen: bool = False,
    ) -> None:
        self.encoder = encoder.eval()
        self.frames_per_pass = frames_per_pass
        self.most_tokens = most_tokens
        self.compute = compute
        self._quick: FrameWise | None = None  # built at the first crops
        precise = (compute or default_precision(encoder.device)) == "float32"
        self._folds = frozen and encoder.device.type == "cpu" and precise

    @property
    def width(self) -> int:
        """Width d of the vectors."""
        return self.encoder.width

    @torch.inference_mode()
    def __call__(self, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Crops uint8 (n, h, w, 3), packed, to vectors float32 (b, d)."""
        encoder = self.encoder
        vectors = np.empty((len(lengths), encoder.width), np.float32)
        with precision(encoder.device, self.compute), memory_suffices(encoder.device):
            if isinstance(encoder, FrameWise):
                groups = self._aggregate_features(encoder, crops, lengths)
            else:
                groups = self._encode_clips(crops, lengths)
            for rows, tokens in groups:
                vectors[rows] = tokens.tracklet.float().cpu().numpy()
        return vectors

    def _aggregate_features(
        self, encoder: FrameWise, crops: np.ndarray, lengths: Sequence[int]
    ) -> Iterator[tuple[list[int], Tokens]]:
        """Groups of tracklets of similar length, and their tokens, by a frame-wise encoder."""
        features = torch.split(self._features(encoder, crops), list(lengths))  # s f each
        for group in length_groups(lengths, self.most_tokens, beside=1):
            packed = torch.cat([features[i] for i in group])
            yield group, encoder.aggregate(packed, [lengths[i] for i in group])

    def _encode_clips(
        self, crops: np.ndarray, lengths: Sequence[int]
    ) -> Iterator[tuple[list[int], Tokens]]:
        """Groups of tracklets of equal length, and their tokens, by a clip-wise encoder."""
        clips = np.split(crops, np.cumsum(lengths)[:-1])  # s h w 3 each
        for group in length_groups(lengths, self.frames_per_pass, equal=True):
            packed = self._tensor(np.concatenate([clips[i] for i in group]))
            yield group, self.encoder(packed, [lengths[i] for i in group])

    @torch.inference_mode()
    def frames(self, crops: np.ndarray) -> np.ndarray:
        """Process crops uint8 (n, h, w, 3) before their tracklets end, for `tracklets`.

        Returns:
            Features float32 (n, f); the crops themselves for an encoder of clips.
        """
        if not isinstance(self.encoder, FrameWise):
            return crops
        with precision(self.encoder.device, self.compute), memory_suffices(self.encoder.device):
            features: np.ndarray = self._features(self.encoder, crops).float().cpu().numpy()
        return features

    @torch.inference_mode()
    def tracklets(self, features: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Vectors float32 (b, d) of tracklets of some lengths, from the results of `frames`."""
        if not isinstance(self.encoder, FrameWise):
            return self(features, lengths)
        device = self.encoder.device
        with precision(device, self.compute), memory_suffices(device):
            tokens = self.encoder.aggregate(torch.from_numpy(features).to(device), lengths)
            vectors: np.ndarray = tokens.tracklet.float().cpu().numpy()
        return vectors

    def _features(self, encoder: FrameWise, crops: np.ndarray) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, f), in blocks of frames."""
        if self._folds:
            self._quick = self._quick or folded(encoder, crops.shape[1])
            encoder = self._quick
        step = self.frames_per_pass
        if encoder.device.type == "cpu":  # larger blocks would only cost memory traffic
            step = max(min(step, PIXELS_PER_PASS // (crops.shape[1] * crops.shape[2])), 1)
        edges = range(0, len(crops), step)
        blocks = (self._tensor(crops[at : at + step]) for at in edges)
        return torch.cat([encoder.encode_frames(block) for block in blocks])

    def _tensor(self, crops: np.ndarray) -> torch.Tensor:
        """Crops on the encoder's device."""
        # Copied, because torch needs writable memory and the memory map is read-only.
        return torch.from_numpy(np.array(crops)).to(self.encoder.device)


def colour_histogram(crops: np.ndarray, lengths: Sequence[int], *, bins: int = 8) -> np.ndarray:
    """A baseline without learning: the joint RGB histogram of all pixels of a tracklet.

    Args:
        crops: uint8 (n, h, w, 3), packed.
        lengths: Number of frames of each of the b tracklets.
        bins: Number of bins per channel.

    Returns:
        float32 (b, bins^3); every row sums to 1.

    Example:
        >>> colour_histogram(np.zeros((3, 4, 4, 3), np.uint8), [2, 1], bins=2)[:, 0]
        array([1., 1.], dtype=float32)
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
    length: int | None = None,
    progress: StageProgress = silent_stage,
) -> Embeddings:
    """Embed every prepared tracklet as a whole (every stride-th frame), or every fragment.

    Args:
        prepared: Tracklets and their crops.
        embedder: Turns packed crops into vectors.
        weights_id: Id of the embedder, stored with the vectors.
        length: Number of crops of a fragment; names and order are those of `fragment_table`. None
            for whole tracklets.
        progress: Callback with (tracklets or fragments done, total).

    Raises:
        PolyplinkError: If there is no fragment, or a vector is not finite.
    """
    if length is None:
        kind, samples = "tracklet", prepared.tracklets.with_columns(n="n_crops")
    else:
        kind, samples = "fragment", fragment_table(prepared, length)
    names = samples[f"{kind}_id"].to_list()
    if not names:  # procedures without polyps are not an error
        return Embeddings([], np.zeros((0, 1), np.float32), weights_id, prepared.key)
    parts: list[np.ndarray] = []
    n_done = 0
    for (procedure_id,), rows in samples.group_by("procedure_id", maintain_order=True):
        crops = prepared.crops(str(procedure_id))
        if length is None:
            blocks = _blocks(rows, crops[:1].nbytes)
        else:
            blocks = list(rows.iter_slices(BLOCK_FRAGMENTS))
        for block in blocks:
            runs = block.select("crop_first", "n").rows()
            places = np.concatenate([np.arange(first, first + n) for first, n in runs])
            # Crops of broken frames belong to no sample; if there are none, nothing is copied.
            run = slice(places[0], places[-1] + 1)
            is_run = np.array_equal(places, np.arange(run.start, run.stop))
            parts.append(embedder(crops[run] if is_run else crops[places], [n for _, n in runs]))
            release_pages(crops)
            n_done += block.height
            progress(n_done, samples.height)
    vectors = np.concatenate(parts)
    not_finite = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(not_finite):
        raise PolyplinkError(
            f"the vector of {kind} {names[int(not_finite[0])]} is not finite",
            "the weights are broken: train again",
        )
    return Embeddings(names, vectors, weights_id, prepared.key)


def _blocks(tracklets: pl.DataFrame, crop_bytes: int) -> list[pl.DataFrame]:
    """Tracklets of a procedure in blocks of about `BLOCK_BYTES`, at least one tracklet each."""
    before = tracklets["n"].cum_sum() - tracklets["n"]
    blocks = tracklets.with_columns(block=before * crop_bytes // BLOCK_BYTES)
    return blocks.partition_by("block", maintain_order=True)


def embed_stored(
    prepared: Prepared,
    embedder: Embedder,
    weights_id: str,
    folder: Path,
    *,
    length: int | None = None,
    with_crops: WithCrops = nullcontext,
    progress: StageProgress = silent_stage,
) -> Embeddings:
    """Like `embed`, with the vectors of each procedure cached in a file.

    Procedures with cached vectors are not embedded again; several processes share the others.

    Args:
        prepared: Tracklets and their crops.
        embedder: Turns packed crops into vectors.
        weights_id: Id of the embedder, stored with the vectors.
        folder: Folder with `Prepared.stem`.parquet of each procedure with tracklets or fragments,
            as written by `write_embeddings`.
        length: Number of crops of a fragment; None for whole tracklets.
        with_crops: Provides the crops of a part with one procedure while it is embedded.
        progress: Callback with (tracklets or fragments done, total), if any is embedded.

    Raises:
        PolyplinkError: If there is no fragment, or a vector is not finite.
    """
    # Ids of the tracklets or fragments of each procedure.
    table, name = prepared.tracklets, "tracklet_id"
    if length is not None:
        table, name = fragment_table(prepared, length), "fragment_id"
    parts = table.partition_by("procedure_id", maintain_order=True)
    ids = {str(part["procedure_id"][0]): part[name].to_list() for part in parts}
    paths = {
        procedure_id: folder / f"{prepared.stem(procedure_id)}.parquet" for procedure_id in ids
    }

    # Procedures that are not cached are embedded in rounds, shared with other processes.
    embedded: dict[str, Embeddings] = {}
    n_done, width = 0, getattr(embedder, "width", None)

    def is_embedded(procedure_id: str) -> bool:
        """Whether a procedure's vectors are known, here or in its file, which is read then."""
        if procedure_id not in embedded:
            cached = _read_cached(paths[procedure_id], ids[procedure_id], weights_id, width)
            if cached is not None:
                embedded[procedure_id] = cached
        return procedure_id in embedded

    def count(done_here: int, of: int) -> None:
        progress(n_done + done_here, table.height)

    for missing in rounds(list(ids), is_embedded):
        n_done = sum(len(embeddings.tracklet_ids) for embeddings in embedded.values())
        for procedure_id in missing:
            path = paths[procedure_id]
            with claimed(path) as is_claimed:
                if not is_claimed or is_embedded(procedure_id):
                    continue
                if path.is_file():
                    say_remade(path)
                with with_crops(prepared.select([procedure_id])) as part:
                    embeddings = embed(part, embedder, weights_id, length=length, progress=count)
                embedded[procedure_id] = embeddings
                if embeddings.tracklet_ids:
                    write_embeddings(
                        path, replace(embeddings, crops_id=prepared.keys[procedure_id])
                    )
                n_done += len(embeddings.tracklet_ids)

    # The vectors of all procedures, in their order.
    stored_parts = [
        embedded[procedure_id] for procedure_id in ids if embedded[procedure_id].tracklet_ids
    ]
    if not stored_parts:
        return Embeddings([], np.zeros((0, 1), np.float32), weights_id, prepared.key)
    widths = {embeddings.vectors.shape[1] for embeddings in stored_parts}
    if len(widths) > 1:  # unknown which are right: embed all again
        for path in paths.values():
            say_remade(path)
            path.unlink(missing_ok=True)
        return embed_stored(
            prepared,
            embedder,
            weights_id,
            folder,
            length=length,
            with_crops=with_crops,
            progress=progress,
        )
    names = [name for embeddings in stored_parts for name in embeddings.tracklet_ids]
    vectors = np.concatenate([embeddings.vectors for embeddings in stored_parts])
    return Embeddings(names, vectors, weights_id, prepared.key)


def _read_cached(
    path: Path, ids: Sequence[str], weights_id: str, width: int | None
) -> Embeddings | None:
    """The cached vectors of a procedure; None if there are none, or they are broken or outdated.

    Args:
        path: The file.
        ids: Ids of the procedure's tracklets or fragments.
        weights_id: Id of the embedder.
        width: Width of its vectors; None if unknown.
    """
    if not path.is_file():
        return None
    with suppress(PolyplinkError):  # a broken file
        cached = read_embeddings(path)
        is_current = cached.tracklet_ids == ids and cached.weights_id == weights_id
        is_current &= width in (None, cached.vectors.shape[1])
        if is_current and np.isfinite(cached.vectors).all():
            return cached
    return None


def fragment_table(prepared: Prepared, length: int) -> pl.DataFrame:
    """Fragments of `length` crops, named by tracklet, "#" and the number in the tracklet.

    Raises:
        PolyplinkError: If no tracklet is that long.
    """
    table = prepared.fragments(length)
    if table.is_empty():
        raise PolyplinkError(
            f"no tracklet has {length} crops, so there is no fragment of {length}",
            "give a smaller --length (probe) or --set fragment_length=N (train)",
        )
    names = prepared.tracklets["tracklet_id"].gather(table["tracklet"])
    number = pl.int_range(pl.len()).over("tracklet")
    return table.with_columns(names, number=number).with_columns(
        fragment_id=pl.format("{}#{}", "tracklet_id", "number")
    )
