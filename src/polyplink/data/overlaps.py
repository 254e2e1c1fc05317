"""Data sets that are known to hold the same videos.

Sources: github.com/GewelsJI/VPS (SUN-SEG is cut from SUN); cosmoimd/temporal_segmentation and
arXiv 2603.25645 (made on REAL-Colon's videos); Li et al., PLOS ONE 2021 (what PolypsSet is made
of). PolypGen and the others are not known to overlap with any.
"""

import re

# Two sets, and what they share.
_KNOWN = (
    ("sun", "sun-seg", "SUN-SEG is cut from SUN's videos"),
    ("real-colon", "colon-bench", "Colon-Bench is made of REAL-Colon's videos"),
    ("real-colon", "temporal-segmentation", "its phases are labelled on REAL-Colon's videos"),
    ("polypsset", "cvc-colondb", "PolypsSet holds CVC-ColonDB"),
    ("polypsset", "miccai-2017", "PolypsSet holds the videos of MICCAI 2017"),
    ("polypsset", "glrc", "PolypsSet holds the videos of GLRC"),
)


def plain_name(dataset: str) -> str:
    """A data set's name without case and dividers, as sets are compared by."""
    return re.sub(r"[\s_-]+", "", dataset.casefold())


def known_overlap(dataset: str, other: str) -> str | None:
    """What two sets of different names share; None where nothing is known."""
    names = {plain_name(dataset), plain_name(other)}
    for a, b, why in _KNOWN:
        if names == {plain_name(a), plain_name(b)}:
            return why
    return None
