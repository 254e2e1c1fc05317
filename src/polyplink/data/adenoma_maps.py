"""Which words of histology count as adenoma: the papers' maps, others by name, and files.

Sources: `papers` is NTSSL's (arXiv 2605.12320), which calls a traditional serrated adenoma none;
`tsa-adenoma` groups it with adenoma, as the scripts of cosmoimd do.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.data.overlaps import plain_name
from polyplink.data.vocabulary import ADENOMA, SIMULATED, AdenomaMap, adenoma_label

Maps = Mapping[str, AdenomaMap]  # name of a data set -> its map

NAMED: Mapping[str, Maps] = {
    "papers": ADENOMA,
    "tsa-adenoma": {
        name: {word: True if word == "TSA" else label for word, label in words.items()}
        for name, words in ADENOMA.items()
    },
}


def find_maps(name_or_file: str) -> Maps:
    """Maps by their name, or from a file.

    Args:
        name_or_file: A key of `NAMED`, or the path of a file (one with a dot or a slash in it).

    Returns:
        Name of a data set -> its map.

    Raises:
        PolyplinkError: If there is no map of that name, or the file is none (see
            `read_adenoma_maps`).
    """
    if name_or_file not in NAMED and ("/" in name_or_file or "." in name_or_file):
        return read_adenoma_maps(Path(name_or_file))
    return find_named("histology map", name_or_file, NAMED)


def read_adenoma_maps(path: Path) -> dict[str, AdenomaMap]:
    """Read maps from JSON, `{"real-colon": {"TSA": true, ...}}`; they change the default's words.

    Args:
        path: The file; true is adenoma, false is not, null leaves the word out of the task.

    Returns:
        The default maps with what the file says instead or beside.

    Raises:
        PolyplinkError: If the file is missing or is no such mapping.
    """
    given = read_json(path)
    fits = isinstance(given, dict) and all(
        isinstance(words, dict) and all(v is None or isinstance(v, bool) for v in words.values())
        for words in given.values()
    )
    if not fits:
        raise PolyplinkError(f"{path} is no adenoma map", 'write {"real-colon": {"TSA": true}}')
    known = {plain_name(name): name for name in ADENOMA}
    maps: dict[str, AdenomaMap] = dict(ADENOMA)
    for name, words in given.items():
        own = known.get(plain_name(name), name)
        _refuse_near_words(words, ADENOMA.get(own, {}), f"{path}, {name}")
        maps[own] = {**maps.get(own, {}), **words}
    return maps


def _refuse_near_words(words: AdenomaMap, known: AdenomaMap, where: str) -> None:
    """`tsa` beside `TSA` would be a word that no polyp has, and change nothing in silence."""
    plain = {word.casefold(): word for word in known}
    for word in words:
        if word not in known and word.casefold() in plain:
            raise PolyplinkError(
                f"{where}: no class {word!r}", f"did you mean {plain[word.casefold()]!r}?"
            )


def map_of(dataset: str, maps: Maps) -> AdenomaMap | None:
    """The map of a data set; names are compared without case and dividers.

    A simulated set has REAL-Colon's words and, unless it is named itself, its map.
    """
    by_name = {plain_name(name): words for name, words in maps.items()}
    own = by_name.get(plain_name(dataset))
    return by_name.get("realcolon") if own is None and dataset.startswith(SIMULATED) else own


def label_polyps(procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps) -> pl.Series:
    """Label every polyp as adenoma (1) or not (0), each by the map of its own data set.

    Args:
        procedures: The table.
        polyps: The table.
        maps: Name of a data set -> its map.

    Returns:
        Int8, one for each row of `polyps`; null where unknown or left out.

    Raises:
        PolyplinkError: If a set that tells histology has no map, or a word is not in it.
    """
    rows = polyps.select("procedure_id", "histology_class").join(
        procedures.select("procedure_id", "dataset"),
        on="procedure_id",
        how="left",
        maintain_order="left",
    )
    labels = pl.Series([None] * rows.height, dtype=pl.Int8)
    for dataset in rows.drop_nulls("histology_class")["dataset"].unique(maintain_order=True):
        words = map_of(dataset, maps)
        if words is None:
            raise PolyplinkError(
                f"no adenoma map for the data set {dataset!r}",
                f"give one with --histology-map FILE; there are: {', '.join(maps)}",
            )
        mine = rows["dataset"] == dataset
        found = adenoma_label(rows["histology_class"].filter(mine), words)
        labels = labels.scatter(mine.arg_true(), found)
    return labels
