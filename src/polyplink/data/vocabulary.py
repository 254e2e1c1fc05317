"""Words of the data sets brought to labels: adenoma or not, size class, location.

The adenoma maps are those of NTSSL (arXiv 2605.12320); another one groups TSA with adenoma, so
the map is an argument wherever a label is made (see `adenoma_maps`).
"""

from collections.abc import Mapping

import polars as pl

from polyplink.core.errors import PolyplinkError

SIMULATED = "simulated"  # begins the name of what the simulator wrote; never called real

# True: adenoma; False: not; None: left out of the task.
AdenomaMap = Mapping[str, bool | None]

REAL_COLON_ADENOMA: AdenomaMap = {
    "AD": True,
    "HP": False,
    "SSL": False,
    "TSA": False,
    "NO POLYP": None,
    "OTHER": None,
}
SUN_ADENOMA: AdenomaMap = {
    "Low-grade adenoma": True,
    "High-grade adenoma": True,
    "Hyperplastic polyp": False,
    "SSL": False,
    "TSA": False,
    "Invasive cancer (T1b)": None,
}
POLYP_SIZE_ADENOMA: AdenomaMap = {
    "Tubular Adenoma": True,
    "Tubular Adenoma With High-Grade Dysplasia (HGD)": True,
    "Tubulovillous Adenoma": True,
    "Sessile Serrated Lesion (SSL)": False,
    "Hyperplastic Polyp": False,
    "Inflammatory Polyp": False,
    "Pathology Not Available": None,
}
POLYPSSET_ADENOMA: AdenomaMap = {"adenomatous": True, "hyperplastic": False}

# By the name in the column `dataset` of the table procedures.
ADENOMA: Mapping[str, AdenomaMap] = {
    "real-colon": REAL_COLON_ADENOMA,
    "sun": SUN_ADENOMA,
    "polyp-size": POLYP_SIZE_ADENOMA,
    "polypsset": POLYPSSET_ADENOMA,
}

DIMINUTIVE_MM = 5.0  # a polyp of exactly 5 mm is still diminutive

_LOCATIONS = {"trasnverse": "transverse", "caecum": "cecum"}


def adenoma_label(classes: pl.Series, words: AdenomaMap) -> pl.Series:
    """Label polyps as adenoma (1) or not (0).

    Args:
        classes: Text, the data set's histology class of n polyps; null where unknown.
        words: What each word stands for, for example `ADENOMA["real-colon"]`.

    Returns:
        Int8, n; null where the class is null or left out of the task.

    Raises:
        PolyplinkError: If a word is not in the map.
    """
    strange = classes.drop_nulls().filter(~classes.drop_nulls().is_in(list(words)))
    if strange.len():
        raise PolyplinkError(
            f"histology class {strange[0]!r} is in no row of the adenoma map",
            f"add it to the map, which has: {', '.join(words)}",
        )
    labels = {word: None if adenoma is None else int(adenoma) for word, adenoma in words.items()}
    return classes.replace_strict(labels, default=None, return_dtype=pl.Int8)


def size_label(size_mm: pl.Series) -> pl.Series:
    """Label polyps as larger than 5.0 mm (1) or not (0).

    Args:
        size_mm: Largest diameters of n polyps, mm; null where unknown.

    Returns:
        Int8, n; null where the size is null.
    """
    return (size_mm > DIMINUTIVE_MM).cast(pl.Int8)


def normalise_location(sites: pl.Series) -> pl.Series:
    """Bring the spellings of a colon segment to one.

    Args:
        sites: Text, the data sets' words for n polyps; null where unknown.

    Returns:
        Text, n: lower case, `_` for blanks, `cecum` and `transverse` for their variants; any
        other word is kept.
    """
    plain = sites.str.strip_chars().str.to_lowercase().str.replace_all(r"\s+", "_")
    return plain.replace(_LOCATIONS)
