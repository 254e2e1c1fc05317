"""Names of data sets, and their terms as labels: adenoma, size class, histology, location.

The adenoma maps are those of NTSSL (arXiv 2605.12320), which does not count a traditional serrated
adenoma (TSA) as adenoma; the map `tsa-adenoma` does, like the scripts of cosmoimd. Because the
sources disagree, every function that makes labels takes the maps as an argument.

Sources of the known overlaps of data sets: github.com/GewelsJI/VPS (SUN-SEG is cut from SUN);
cosmoimd/temporal_segmentation and arXiv 2603.25645 (both use REAL-Colon's videos); Li et al., PLOS
ONE 2021 (sources of PolypsSet). No overlap of PolypGen or other sets is known.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError, find_named

SIMULATED = "simulated"  # prefix of the names of simulated data sets; never called real
RECORDINGS = "recordings"  # name of the data set of recordings without annotations
STILLS = "stills in motion"  # prefix of the names of data sets made from annotated stills
DIMINUTIVE_MM = 5.0  # a polyp of exactly 5 mm is still diminutive

# True: adenoma; False: not; None: left out of the task.
AdenomaMap = Mapping[str, bool | None]
Maps = Mapping[str, AdenomaMap]  # name of a data set (column `dataset` of procedures) -> its map

# Data set -> term of its release -> common class; None: unknown.
_WORDS: Mapping[str, Mapping[str, str | None]] = {
    "real-colon": {
        "AD": "adenoma",
        "HP": "hyperplastic",
        "SSL": "sessile serrated lesion",
        "TSA": "traditional serrated adenoma",
        "NO POLYP": "no polyp",
        "OTHER": "other",
    },
    "sun": {
        "Low-grade adenoma": "adenoma",
        "High-grade adenoma": "adenoma",
        "Hyperplastic polyp": "hyperplastic",
        "SSL": "sessile serrated lesion",
        "TSA": "traditional serrated adenoma",
        "Invasive cancer (T1b)": "cancer",
    },
    "polyp-size": {
        "Tubular Adenoma": "adenoma",
        "Tubular Adenoma With High-Grade Dysplasia (HGD)": "adenoma",
        "Tubulovillous Adenoma": "adenoma",
        "Sessile Serrated Lesion (SSL)": "sessile serrated lesion",
        "Hyperplastic Polyp": "hyperplastic",
        "Inflammatory Polyp": "inflammatory",
        "Pathology Not Available": None,
    },
    "polypsset": {"adenomatous": "adenoma", "hyperplastic": "hyperplastic"},
}
_LEFT_OUT = ("cancer", "no polyp", "other", None)  # classes that get neither label


def _adenoma_map(words: Mapping[str, str | None], *, tsa: bool) -> AdenomaMap:
    """The map of terms with their common classes; `tsa` is the label of the term TSA."""
    labels: dict[str, bool | None] = {}
    for word, kind in words.items():
        labels[word] = None if kind in _LEFT_OUT else kind == "adenoma"
        if word == "TSA":
            labels[word] = tsa
    return labels


# Term of a release, or a common class -> common class.
HISTOLOGY: dict[str, str | None] = {
    word: kind for words in _WORDS.values() for word, kind in words.items()
}
HISTOLOGY |= {kind: kind for kind in HISTOLOGY.values() if kind is not None}
ADENOMA: Maps = {name: _adenoma_map(words, tsa=False) for name, words in _WORDS.items()}
NAMED: Mapping[str, Maps] = {
    "papers": ADENOMA,
    "tsa-adenoma": {name: _adenoma_map(words, tsa=True) for name, words in _WORDS.items()},
}

_SPELLINGS = {"trasnverse": "transverse", "caecum": "cecum"}

# Two data sets, and the reason of their overlap.
_OVERLAPS = (
    ("sun", "sun-seg", "SUN-SEG is cut from SUN's videos"),
    ("real-colon", "colon-bench", "Colon-Bench is made of REAL-Colon's videos"),
    ("real-colon", "temporal-segmentation", "its phases are labelled on REAL-Colon's videos"),
    ("polypsset", "cvc-colondb", "PolypsSet holds CVC-ColonDB"),
    ("polypsset", "miccai-2017", "PolypsSet holds the videos of MICCAI 2017"),
    ("polypsset", "glrc", "PolypsSet holds the videos of GLRC"),
)


def find_maps(name_or_file: str) -> Maps:
    """Adenoma maps by name ("papers", "tsa-adenoma"), or from a file.

    Args:
        name_or_file: A key of `NAMED`, or the path of a file (with a dot or a slash in it).

    Returns:
        Name of a data set -> its map.

    Raises:
        PolyplinkError: If no map has the name, or the file is not a map (see
            `read_adenoma_maps`).

    Example:
        >>> find_maps("tsa-adenoma")["real-colon"]["TSA"]
        True
    """
    if name_or_file not in NAMED and ("/" in name_or_file or "." in name_or_file):
        return read_adenoma_maps(Path(name_or_file))
    return find_named("histology map", name_or_file, NAMED)


def read_adenoma_maps(path: Path) -> dict[str, AdenomaMap]:
    """Read maps from JSON, `{"real-colon": {"TSA": true, ...}}`, that extend the default maps.

    Args:
        path: The file; true means adenoma, false means not, null leaves the term out of the task.

    Returns:
        The default maps, changed and extended by those of the file.

    Raises:
        PolyplinkError: If the file is missing or not such a mapping, or a term differs from a
            known one only in case (`tsa` for `TSA`), which would silently have no effect.
    """
    classes = read_json(path)
    fits = isinstance(classes, dict) and all(
        isinstance(words, dict) and all(v is None or isinstance(v, bool) for v in words.values())
        for words in classes.values()
    )
    if not fits:
        raise PolyplinkError(f"{path} is not an adenoma map", 'write {"real-colon": {"TSA": true}}')
    canonical_names = {plain_name(name): name for name in ADENOMA}
    maps: dict[str, AdenomaMap] = dict(ADENOMA)
    for name, words in classes.items():
        canonical = canonical_names.get(plain_name(name), name)
        by_case = {word.casefold(): word for word in ADENOMA.get(canonical, {})}
        for word in words:
            right = by_case.get(word.casefold(), word)
            if right != word:
                problem = f"{path}, {name}: no class {word!r}"
                raise PolyplinkError(problem, f"did you mean {right!r}?")
        maps[canonical] = {**maps.get(canonical, {}), **words}
    return maps


def label_polyps(procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps) -> pl.Series:
    """Label every polyp as adenoma (1) or not (0) by the map of its data set.

    Names of data sets are compared by `plain_name`. A simulated data set uses REAL-Colon's terms
    and, unless it has its own map, REAL-Colon's map.

    Args:
        procedures: The table of procedures.
        polyps: The table of polyps.
        maps: Name of a data set -> its map.

    Returns:
        Int8, one for each row of `polyps`; null if unknown or left out of the task.

    Raises:
        PolyplinkError: If a data set with histology has no map, or a term is not in its map.
    """
    by_name = {plain_name(name): words for name, words in maps.items()}
    sets = procedures.select("procedure_id", "dataset")
    rows = polyps.select("procedure_id", "histology_class").join(
        sets, on="procedure_id", how="left", maintain_order="left"
    )
    labels = pl.Series([None] * rows.height, dtype=pl.Int8)
    for dataset in rows.drop_nulls("histology_class")["dataset"].unique(maintain_order=True):
        words = by_name.get(plain_name(dataset))
        if words is None and is_simulated(dataset):
            words = by_name.get("realcolon")
        if words is None:
            raise PolyplinkError(
                f"no adenoma map for the data set {dataset!r}",
                f"give one with --histology-map FILE; the maps are for: {', '.join(maps)}",
            )
        of_data_set = rows["dataset"] == dataset
        classes = rows["histology_class"].filter(of_data_set)
        codes = {word: None if label is None else int(label) for word, label in words.items()}
        hint = f"add it to the map, which has: {', '.join(words)}"
        problem = "is not in the adenoma map"
        coded = _translate(classes, codes, problem, hint)
        labels = labels.scatter(of_data_set.arg_true(), coded.cast(pl.Int8))
    return labels


def common_histology(classes: pl.Series) -> pl.Series:
    """Map the histology terms of data sets to common classes (see `HISTOLOGY`).

    Args:
        classes: Text, the column histology_class of n polyps; null if unknown.

    Returns:
        Text, n; null if unknown.

    Raises:
        PolyplinkError: If a term has no common class.

    Example:
        >>> common_histology(pl.Series(["AD", "Tubular Adenoma", "HP"])).to_list()
        ['adenoma', 'adenoma', 'hyperplastic']
    """
    hint = f"write it as one of these: {', '.join(HISTOLOGY)}"
    return _translate(classes, HISTOLOGY, "has no common class", hint)


def _translate(words: pl.Series, mapping: Mapping[str, Any], problem: str, hint: str) -> pl.Series:
    """Replace histology classes by their values in a mapping; null stays, no other is allowed."""
    unknown = words.filter(words.is_not_null() & ~words.is_in(list(mapping)))
    if unknown.len():
        raise PolyplinkError(f"histology class {unknown[0]!r} {problem}", hint)
    return words.replace_strict(dict(mapping), default=None)


def size_label(size_mm: pl.Series) -> pl.Series:
    """Label polyps as larger than 5.0 mm (1) or not (0).

    Args:
        size_mm: Largest diameters of n polyps, mm; null if unknown.

    Returns:
        Int8, n; null if the size is null.

    Example:
        >>> size_label(pl.Series([5.0, 5.5, None])).to_list()
        [0, 1, None]
    """
    return (size_mm > DIMINUTIVE_MM).cast(pl.Int8)


def normalise_location(sites: pl.Series) -> pl.Series:
    """Normalise the spelling of colon segments.

    Args:
        sites: Text, the data sets' terms for n polyps; null if unknown.

    Returns:
        Text, n: lower case, `_` for blanks, `cecum` and `transverse` for their variants; any
        other term is kept.

    Example:
        >>> normalise_location(pl.Series(["Caecum", "Sigmoid colon"])).to_list()
        ['cecum', 'sigmoid_colon']
    """
    plain = sites.str.strip_chars().str.to_lowercase().str.replace_all(r"\s+", "_")
    return plain.replace(_SPELLINGS)


def is_simulated(dataset: str) -> bool:
    """Whether a data set is simulated, by its name.

    Example:
        >>> is_simulated("simulated tiny 0"), is_simulated("real-colon")
        (True, False)
    """
    return dataset.startswith(SIMULATED)


def plain_name(dataset: str) -> str:
    """A data set's name in lower case without blanks, `-` and `_`, for comparison.

    Example:
        >>> plain_name("REAL_Colon ") == plain_name("real-colon")
        True
    """
    return re.sub(r"[\s_-]+", "", dataset.casefold())


def known_overlap(dataset: str, other: str) -> str | None:
    """The known overlap of two data sets; None if none is known.

    Example:
        >>> known_overlap("SUN", "sun_seg")
        "SUN-SEG is cut from SUN's videos"
    """
    names = {plain_name(dataset), plain_name(other)}
    return next(
        (reason for a, b, reason in _OVERLAPS if names == {plain_name(a), plain_name(b)}), None
    )
