"""One class for what the data sets say of histology and location in words of their own.

The words are those of the releases (see `vocabulary.ADENOMA`). Whether a class counts as adenoma
is a matter of the map, since sources disagree: NTSSL (arXiv 2605.12320) calls a traditional
serrated adenoma none, the scripts of cosmoimd group it with adenoma.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from polyplink.artefacts import read_json
from polyplink.data.overlaps import plain_name
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import ADENOMA, AdenomaMap, adenoma_label, normalise_location
from polyplink.errors import PolyplinkError

HISTOLOGY: Mapping[str, str] = {
    "AD": "adenoma",
    "Low-grade adenoma": "adenoma",
    "High-grade adenoma": "adenoma",
    "Tubular Adenoma": "adenoma",
    "Tubular Adenoma With High-Grade Dysplasia (HGD)": "adenoma",
    "Tubulovillous Adenoma": "adenoma",
    "adenomatous": "adenoma",
    "HP": "hyperplastic",
    "Hyperplastic polyp": "hyperplastic",
    "Hyperplastic Polyp": "hyperplastic",
    "hyperplastic": "hyperplastic",
    "SSL": "sessile serrated lesion",
    "Sessile Serrated Lesion (SSL)": "sessile serrated lesion",
    "TSA": "traditional serrated adenoma",
    "Inflammatory Polyp": "inflammatory",
    "Invasive cancer (T1b)": "cancer",
    "NO POLYP": "no polyp",
    "OTHER": "other",
}
_UNKNOWN = ("Pathology Not Available",)

SEGMENTS: Mapping[str, str] = {
    "cecum": "cecum",
    "ascending": "ascending",
    "ascending_colon": "ascending",
    "hepatic_flexure": "hepatic flexure",
    "transverse": "transverse",
    "transverse_colon": "transverse",
    "splenic_flexure": "splenic flexure",
    "descending": "descending",
    "descending_colon": "descending",
    "sigma": "sigmoid",
    "sigmoid": "sigmoid",
    "sigmoid_colon": "sigmoid",
    "rectum": "rectum",
}


def common_histology(classes: pl.Series) -> pl.Series:
    """The common class of the sets' histology classes.

    Args:
        classes: Text, the column histology_class of n polyps; null where unknown.

    Returns:
        Text, n; null where unknown.

    Raises:
        PolyplinkError: If a word has no class here.
    """
    return _common(classes, {**HISTOLOGY, **dict.fromkeys(_UNKNOWN)}, "histology class")


def common_location(sites: pl.Series) -> pl.Series:
    """The common segment of the sets' words for a location, in whatever spelling.

    Args:
        sites: Text, the column location of n polyps; null where unknown.

    Returns:
        Text, n; null where unknown.

    Raises:
        PolyplinkError: If a word has no segment here.
    """
    return _common(normalise_location(sites), SEGMENTS, "location")


def _common(words: pl.Series, known: Mapping[str, str | None], what: str) -> pl.Series:
    strange = words.drop_nulls().filter(~words.drop_nulls().is_in(list(known)))
    if strange.len():
        raise PolyplinkError(
            f"{what} {strange[0]!r} has no common class",
            f"write it as one of these: {', '.join(known)}",
        )
    return words.replace_strict(dict(known), default=None, return_dtype=pl.String)


def adenoma_labels(data: DataSet, maps: Mapping[str, AdenomaMap] = ADENOMA) -> pl.Series:
    """Label every polyp as adenoma (1) or not (0), each by the map of its own data set.

    Args:
        data: The data set.
        maps: Name of a data set -> its map; names are compared without case and dividers.

    Returns:
        Int8, one for each row of the table polyps; null where unknown or left out.

    Raises:
        PolyplinkError: If a set that tells histology has no map, or a word is not in it.
    """
    own = data.procedures.select("procedure_id", "dataset")
    rows = data.polyps.select("procedure_id", "histology_class").join(
        own, on="procedure_id", how="left", maintain_order="left"
    )
    by_name = {plain_name(name): words for name, words in maps.items()}
    labels = pl.Series([None] * rows.height, dtype=pl.Int8)
    for dataset in rows.drop_nulls("histology_class")["dataset"].unique(maintain_order=True):
        words = by_name.get(plain_name(dataset))
        if words is None:
            raise PolyplinkError(
                f"no adenoma map for the data set {dataset!r}",
                f"give one; there are: {', '.join(maps)}",
            )
        mine = rows["dataset"] == dataset
        found = adenoma_label(rows["histology_class"].filter(mine), words)
        labels = labels.scatter(mine.arg_true(), found)
    return labels


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
    return {name: {**ADENOMA.get(name, {}), **given.get(name, {})} for name in {**ADENOMA, **given}}
