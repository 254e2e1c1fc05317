"""One class for what the data sets say of histology and location in words of their own.

The words are those of the releases (see `vocabulary.ADENOMA`). Whether a class counts as adenoma
is a matter of the map, since sources disagree (see `adenoma_maps`).
"""

from collections.abc import Mapping

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.adenoma_maps import Maps, label_polyps
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import normalise_location

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


def adenoma_labels(data: DataSet, maps: Maps | None = None) -> pl.Series:
    """Label every polyp as adenoma (1) or not (0), each by the map of its own data set.

    Args:
        data: The data set.
        maps: Name of a data set -> its map, compared without case and dividers; None for the
            data set's own, which are the papers' where it was imported with no others.

    Returns:
        Int8, one for each row of the table polyps; null where unknown or left out.

    Raises:
        PolyplinkError: If a set that tells histology has no map, or a word is not in it.
    """
    return label_polyps(data.procedures, data.polyps, data.adenoma if maps is None else maps)
