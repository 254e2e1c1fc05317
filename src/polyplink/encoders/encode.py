"""Apply encoders to a part of a data folder: prepare, embed, cache and check.

Every verb that needs vectors gets them from here: `encode` cuts crops, embeds them and stores the
vectors of each procedure in the prepared folder for the next call.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import polars as pl

from polyplink import __version__
from polyplink.core.artefacts import whole_file, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, silent
from polyplink.core.text import brief
from polyplink.data.tables import read_data
from polyplink.encoders.embed import WithCrops, embed_stored, fragment_table
from polyplink.encoders.load import NamedEncoder
from polyplink.encoders.vectors import Embeddings
from polyplink.tracklets.crops import broken_path
from polyplink.tracklets.prepare import Prepared, add_crops, cut_at_broken, prepare
from polyplink.tracklets.settings import PrepareSettings


def prepare_part(
    folder: Path,
    settings: PrepareSettings,
    part: str | Sequence[str] | None,
    workers: int,
    progress: Progress = silent,
    *,
    with_crops: bool = True,
) -> Prepared:
    """Prepare a part of a data folder, or use the cached result.

    Args:
        folder: The data folder.
        settings: Crop rule and sampling.
        part: Name of a part, ids of procedures, or None for the whole data set.
        workers: Number of threads that cut crops.
        progress: Callback for crops.
        with_crops: False for tables without crops.
    """
    procedures = read_data(folder).part(part) if isinstance(part, str) else part
    stage = partial(progress, "crops")
    return prepare(
        folder,
        settings,
        procedures=procedures,
        with_crops=with_crops,
        workers=workers,
        progress=stage,
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
        folders: Folder of each encoder's vectors, with a file for each procedure.
    """

    __repr__ = brief

    folder: Path
    part: str | Sequence[str] | None
    prepared: Prepared
    clip: int | None
    encoders: Mapping[str, NamedEncoder]
    embeddings: Mapping[str, Embeddings]
    folders: Mapping[str, Path]

    @property
    def first(self) -> NamedEncoder:
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
        self, encoders: Sequence[NamedEncoder], workers: int = 2, progress: Progress = silent
    ) -> "Encoded":
        """Embed with further encoders, and return all.

        Raises:
            PolyplinkError: If an encoder's settings give other tracklets, or a vector is not
                finite.
        """
        ids = self.prepared.tracklets["tracklet_id"].to_list()
        embedded, folders = dict(self.embeddings), dict(self.folders)
        for encoder in encoders:
            prepared = self.prepared
            if encoder.prepare != prepared.settings:
                prepared = prepare_part(self.folder, encoder.prepare, self.part, workers, progress)
                PolyplinkError.unless(
                    prepared.tracklets["tracklet_id"].to_list() == ids,
                    f"{encoder.name} has other settings of tracklets than the first encoder",
                    "give --min-length, --max-gap and --min-iou for all, or evaluate it alone",
                )
            embedded[encoder.name] = stored_vectors(encoder, prepared, self.clip, progress)
            folders[encoder.name] = vectors_folder(encoder, prepared, self.clip)
        all_encoders = {**self.encoders, **{encoder.name: encoder for encoder in encoders}}
        return replace(self, encoders=all_encoders, embeddings=embedded, folders=folders)


def encode(
    encoders: Sequence[NamedEncoder],
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
    settings = encoders[0].prepare
    prepared = prepare_part(folder, settings, part, workers, progress, with_crops=keep_crops)
    if not keep_crops:
        for encoder in encoders:
            passing = vectors_folder(encoder, prepared)
            cut = partial(crops_of, data=folder, workers=workers, passing=passing)
            stored_vectors(encoder, prepared, None, progress, cut)
        prepared = cut_at_broken(prepared)
    return Encoded(folder, part, prepared, clip, {}, {}, {}).add(encoders, workers, progress)


def vectors_folder(encoder: NamedEncoder, prepared: Prepared, clip: int | None = None) -> Path:
    """The folder of an encoder's vectors, with a `Prepared.stem`.parquet for each procedure.

    A GPU (bf16) and a CPU (float32) give slightly different vectors, stored in separate folders.
    """
    name = f"{encoder.key}-{encoder.device.type}" + (f"-fragments{clip}" if clip else "")
    return prepared.folder / "vectors" / name


def stored_vectors(
    encoder: NamedEncoder,
    prepared: Prepared,
    clip: int | None,
    progress: Progress,
    with_crops: WithCrops = nullcontext,
) -> Embeddings:
    """Read an encoder's vectors from their files, or embed and write them; see `embed_stored`."""
    folder = vectors_folder(encoder, prepared, clip)
    if not (folder / "run.json").is_file():
        settings = {"fragments": clip, "tracklets": prepared.settings}
        run_record = {"polyplink": __version__, "command": "embed", "settings": settings}
        inputs = {"weights": encoder.key, "device": encoder.device.type}
        write_json(folder / "run.json", run_record | {"inputs": inputs})
    stage = f"embed {encoder.key}" if clip is None else f"embed fragments of {clip}"
    return embed_stored(
        prepared,
        encoder.embedder,
        encoder.key,
        folder,
        length=clip,
        with_crops=with_crops,
        progress=partial(progress, stage),
    )


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
        with whole_file(broken_path(first_crops)) as copy:
            shutil.copyfile(broken, copy)
    yield cut
    crops.unlink()
    broken.unlink(missing_ok=True)
    with suppress(OSError):  # another process still uses the folder
        crops.parent.rmdir()
