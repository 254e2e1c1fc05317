"""Vectors of tracklets: computed by encoders, stored in the prepared folder, and read again.

Every verb that needs vectors gets them from `encode`: it prepares a part of a data folder, embeds
its tracklets and stores the vectors of each procedure for the next call. Nothing here needs torch,
so that stored vectors are read without it.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from polyplink import __version__
from polyplink.core.artefacts import atomic_file, write_json
from polyplink.core.errors import PolyplinkError, warn_remade
from polyplink.core.results import Progress, StageProgress, silent, silent_stage
from polyplink.core.runs import claim_unmade, until_done
from polyplink.core.text import short_repr
from polyplink.data.tables import read_table, write_table
from polyplink.tracklets.crops import broken_path, release_pages
from polyplink.tracklets.prepare import (
    Prepared,
    add_crops,
    cut_at_broken,
    prepare,
    remove_outdated,
    storing_in,
)

if TYPE_CHECKING:
    from polyplink.encoders.embed import Embedder
    from polyplink.encoders.load import NamedEncoder

BLOCK_BYTES = 256 << 20  # of the crops of tracklets that are embedded at once
BLOCK_FRAGMENTS = 64  # embedded at once: with 8 crops of 232 pixels, 80 MB

WithCrops = Callable[[Prepared], AbstractContextManager[Prepared]]
"""Provides the crops of a part with one procedure while it is embedded."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of tracklets.

    Attributes:
        tracklet_ids: n unique ids.
        vectors: (n, d) float32, the encoder's output (not normalised).
        weights_id: Id of the weights.
        crops_id: Key of the crops, of a procedure or of a whole prepared data set.
    """

    tracklet_ids: Sequence[str] = field(repr=False)
    vectors: np.ndarray = field(repr=False)
    weights_id: str
    crops_id: str


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write a Parquet table (tracklet_id, vector, weights_id, crops_id) atomically."""
    vectors = np.ascontiguousarray(embeddings.vectors, dtype=np.float32)
    d = vectors.shape[1]
    table = pl.DataFrame(
        {
            "tracklet_id": list(embeddings.tracklet_ids),
            "vector": pl.Series(vectors.reshape(-1)).reshape((-1, d)),
        },
        {"tracklet_id": pl.String, "vector": pl.Array(pl.Float32, d)},
    )
    weights_id, crops_id = pl.lit(embeddings.weights_id), pl.lit(embeddings.crops_id)
    write_table(path, table.with_columns(weights_id=weights_id, crops_id=crops_id))


def read_embeddings(path: Path, hint: str = "embed again") -> Embeddings:
    """Read a table of `write_embeddings`.

    Args:
        path: The file.
        hint: How to fix a broken file.

    Raises:
        PolyplinkError: If the file is missing or unreadable, lacks a column, repeats a tracklet,
            or mixes vectors of several encoders or crops.
    """
    if not path.is_file():
        raise PolyplinkError(f"no embeddings at {path}", hint)
    table = read_table(path, hint)
    for column in ("tracklet_id", "vector", "weights_id", "crops_id"):
        if column not in table.columns:
            raise PolyplinkError(f"{path} has no column {column}", hint)
    if table["tracklet_id"].dtype != pl.String:
        raise PolyplinkError(f"{path}: tracklet_id is not text", hint)
    repeated = table["tracklet_id"].is_duplicated().arg_true()
    if repeated.len():
        name = table["tracklet_id"][int(repeated[0])]
        raise PolyplinkError(f"{path}: tracklet {name!r} occurs twice", "keep one row of it")
    for column in ("weights_id", "crops_id"):
        if table[column].n_unique() > 1:
            raise PolyplinkError(
                f"{path} mixes several {column}", f"vectors are only comparable within one: {hint}"
            )
    vectors: np.ndarray = np.zeros(0)
    with suppress(TypeError, ValueError, pl.exceptions.PolarsError):
        vectors = table["vector"].to_numpy().astype(np.float32)  # n d
    if vectors.ndim != 2:
        raise PolyplinkError(f"{path} holds no vectors of one length", hint)
    ids = table["tracklet_id"].to_list()
    source = (table["weights_id"][0], table["crops_id"][0]) if ids else ("", "")
    return Embeddings(ids, vectors, *source)


def embed(
    prepared: Prepared,
    embedder: "Embedder",
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
        width = getattr(embedder, "width", 1)
        return Embeddings([], np.zeros((0, width), np.float32), weights_id, prepared.key)
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
    n_crops = tracklets["n"].cast(pl.Int64)  # bytes of an hour exceed 32 bits
    before = n_crops.cum_sum() - n_crops
    blocks = tracklets.with_columns(block=before * crop_bytes // BLOCK_BYTES)
    return blocks.partition_by("block", maintain_order=True)


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


@dataclass(frozen=True)
class Encoded:
    """Vectors of the same tracklets, or of their fragments, by several encoders.

    Attributes:
        folder: The data folder.
        part: The part of the data folder, as requested.
        prepared: Tracklets and their crops, with the settings of the first encoder.
        clip: Number of crops of a fragment; None if whole tracklets were embedded.
        encoders: The encoders by name; the first is the reference for comparisons.
        embeddings: Vectors by the encoder's name, rows as in `table`.
    """

    __repr__ = short_repr

    folder: Path
    part: str | Sequence[str] | None
    prepared: Prepared
    clip: int | None
    encoders: Mapping[str, "NamedEncoder"]
    embeddings: Mapping[str, Embeddings]

    @property
    def first(self) -> "NamedEncoder":
        """The first encoder."""
        return next(iter(self.encoders.values()))

    @property
    def vectors(self) -> dict[str, np.ndarray]:
        """Vectors (n, d) by the encoder's name."""
        return {name: embeddings.vectors for name, embeddings in self.embeddings.items()}

    @cached_property
    def table(self) -> pl.DataFrame:
        """The n rows of the vectors: tracklets, or fragments (column `fragment_id`)."""
        if self.clip is None:
            return self.prepared.tracklets
        return fragment_table(self.prepared, self.clip)

    def add(
        self, encoders: Sequence["NamedEncoder"], workers: int = 2, progress: Progress = silent
    ) -> "Encoded":
        """Embed with further encoders, and return all.

        Raises:
            PolyplinkError: If an encoder's settings give other tracklets, or a vector is not
                finite.
        """
        ids = self.prepared.tracklets["tracklet_id"].to_list()
        embedded = dict(self.embeddings)
        for encoder in encoders:
            prepared = self.prepared
            if encoder.prepare != prepared.settings:
                prepared = prepare(
                    self.folder,
                    encoder.prepare,
                    procedures=self.part,
                    workers=workers,
                    progress=partial(progress, "crops"),
                )
                if prepared.tracklets["tracklet_id"].to_list() != ids:
                    raise PolyplinkError(
                        f"{encoder.name} has other settings of tracklets than the first encoder",
                        "give --min-length, --max-gap and --min-iou for all, or evaluate it alone",
                    )
            embedded[encoder.name] = stored_vectors(encoder, prepared, self.clip, progress)
        all_encoders = {**self.encoders, **{encoder.name: encoder for encoder in encoders}}
        return replace(self, encoders=all_encoders, embeddings=embedded)


def encode(
    encoders: Sequence["NamedEncoder"],
    folder: Path,
    part: str | Sequence[str] | None = None,
    *,
    clip: int | None = None,
    keep_crops: bool = True,
    workers: int = 2,
    progress: Progress = silent,
) -> Encoded:
    """Turn every tracklet, or every fragment, of a part into a vector by each encoder.

    Vectors are stored in the prepared folder (see `vectors_folder`), a file for each procedure.

    Args:
        encoders: The encoders, at least one.
        folder: The data folder.
        part: Name of a part, ids of procedures, or None for the whole data set.
        clip: Number of crops of a fragment; None to embed whole tracklets.
        keep_crops: False to remove each procedure's crops once its tracklets are embedded.
        workers: Number of threads that cut crops.
        progress: Callback for crops, and for tracklets or fragments.

    Raises:
        PolyplinkError: If the data folder or an image is broken, a vector is not finite, no
            tracklet has `clip` crops, or the encoders' settings give different tracklets.
    """
    with storing_in(folder):
        prepared = prepare(
            folder,
            encoders[0].prepare,
            procedures=part,
            with_crops=keep_crops,
            workers=workers,
            progress=partial(progress, "crops"),
        )
        if not keep_crops:
            remove_outdated(prepared, folder)
            for encoder in encoders:
                passing = vectors_folder(encoder, prepared)
                cut = partial(crops_of, data=folder, workers=workers, passing=passing)
                stored_vectors(encoder, prepared, None, progress, cut)
            prepared = cut_at_broken(prepared)
        return Encoded(folder, part, prepared, clip, {}, {}).add(encoders, workers, progress)


def vectors_folder(encoder: "NamedEncoder", prepared: Prepared, clip: int | None = None) -> Path:
    """The folder of an encoder's vectors, with a `Prepared.stem`.parquet for each procedure.

    A GPU (bf16) and a CPU (float32) give slightly different vectors, stored in separate folders.
    """
    name = f"{encoder.key}-{encoder.device.type}" + (f"-fragments{clip}" if clip else "")
    return prepared.folder / "vectors" / name


def stored_vectors(
    encoder: "NamedEncoder",
    prepared: Prepared,
    clip: int | None,
    progress: Progress,
    with_crops: WithCrops = nullcontext,
) -> Embeddings:
    """Read an encoder's vectors from their files, one for each procedure, or make these.

    Procedures with stored vectors are not embedded again; several processes share the others.

    Args:
        encoder: The encoder.
        prepared: Tracklets and their crops.
        clip: Number of crops of a fragment; None for whole tracklets.
        progress: Callback for tracklets or fragments, if any is embedded.
        with_crops: Provides the crops of a part with one procedure while it is embedded.

    Raises:
        PolyplinkError: If there is no fragment, or a vector is not finite.
    """
    # The folder, with a record of what its files hold.
    folder = vectors_folder(encoder, prepared, clip)
    if not (folder / "run.json").is_file():
        settings = {"fragments": clip, "tracklets": prepared.settings}
        run_record = {"polyplink": __version__, "command": "embed", "settings": settings}
        inputs = {"weights": encoder.key, "device": encoder.device.type}
        write_json(folder / "run.json", run_record | {"inputs": inputs})

    # Ids of the tracklets or fragments of each procedure, and its file.
    table, name = prepared.tracklets, "tracklet_id"
    if clip is not None:
        table, name = fragment_table(prepared, clip), "fragment_id"
    parts = table.partition_by("procedure_id", maintain_order=True)
    ids = {str(part["procedure_id"][0]): part[name].to_list() for part in parts}
    paths = {
        procedure_id: folder / f"{prepared.stem(procedure_id)}.parquet" for procedure_id in ids
    }

    # Procedures without stored vectors are embedded in rounds, shared with other processes.
    embedded: dict[str, Embeddings] = {}
    n_done, width = 0, getattr(encoder.embedder, "width", None)
    stage = f"embed {encoder.key}" if clip is None else f"embed fragments of {clip}"

    def is_embedded(procedure_id: str) -> bool:
        """Whether a procedure's vectors are known, here or in its file, which is read then."""
        if procedure_id not in embedded:
            stored = _read_stored(paths[procedure_id], ids[procedure_id], encoder.key, width)
            if stored is not None:
                embedded[procedure_id] = stored
        return procedure_id in embedded

    def count(done_here: int, of: int) -> None:
        progress(stage, n_done + done_here, table.height)

    for missing in until_done(list(ids), is_embedded):
        n_done = sum(len(embeddings.tracklet_ids) for embeddings in embedded.values())
        for procedure_id in missing:
            path = paths[procedure_id]
            with claim_unmade(path, partial(is_embedded, procedure_id)) as is_missing:
                if not is_missing:
                    continue
                with with_crops(prepared.select([procedure_id])) as part:
                    embeddings = embed(
                        part, encoder.embedder, encoder.key, length=clip, progress=count
                    )
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
        return Embeddings([], np.zeros((0, width or 1), np.float32), encoder.key, prepared.key)
    widths = {embeddings.vectors.shape[1] for embeddings in stored_parts}
    if len(widths) > 1:  # unknown which are right: embed all again
        for path in paths.values():
            warn_remade(path)
            path.unlink(missing_ok=True)
        return stored_vectors(encoder, prepared, clip, progress, with_crops)
    names = [name for embeddings in stored_parts for name in embeddings.tracklet_ids]
    vectors = np.concatenate([embeddings.vectors for embeddings in stored_parts])
    return Embeddings(names, vectors, encoder.key, prepared.key)


def _read_stored(
    path: Path, ids: Sequence[str], weights_id: str, width: int | None
) -> Embeddings | None:
    """The stored vectors of a procedure; None if there are none, or they are broken or outdated.

    Args:
        path: The file.
        ids: Ids of the procedure's tracklets or fragments.
        weights_id: Id of the embedder.
        width: Width of its vectors; None if unknown.
    """
    if not path.is_file():
        return None
    with suppress(PolyplinkError):  # a broken file
        stored = read_embeddings(path)
        is_current = stored.tracklet_ids == ids and stored.weights_id == weights_id
        is_current &= width in (None, stored.vectors.shape[1])
        if is_current and np.isfinite(stored.vectors).all():
            return stored
    return None


@contextmanager
def crops_of(
    part: Prepared, *, data: Path, workers: int, passing: Path | None = None
) -> Iterator[Prepared]:
    """Cut the crops of a part with one procedure, for `stored_vectors`.

    Args:
        part: The part.
        data: The data folder.
        workers: Number of threads that cut crops.
        passing: Folder for crops that are removed at the end; None to keep the crops.
    """
    first_crops = part.crops_path(part.procedures[0])
    if passing is None or part.has_crops(part.procedures[0]):
        yield add_crops(part, data, workers=workers)
        return
    cut = add_crops(replace(part, folder=passing), data, workers=workers)
    crops = cut.crops_path(cut.procedures[0])
    broken = broken_path(crops)
    if broken.is_file():  # readers of the vectors must know where tracklets were split
        with atomic_file(broken_path(first_crops)) as copy:
            shutil.copyfile(broken, copy)
    try:
        yield cut
    finally:
        crops.unlink()
        broken.unlink(missing_ok=True)
        with suppress(OSError):  # another process still uses the folder
            crops.parent.rmdir()
