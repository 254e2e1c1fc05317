"""Names of data sets: how they are compared, and which sets are known to share videos.

Sources of the known overlaps: github.com/GewelsJI/VPS (SUN-SEG is cut from SUN);
cosmoimd/temporal_segmentation and arXiv 2603.25645 (both use REAL-Colon's videos); Li et al., PLOS
ONE 2021 (sources of PolypsSet). No overlap of PolypGen or other sets is known.
"""

import re

# Two data sets, and the reason of their overlap.
_KNOWN = (
    ("sun", "sun-seg", "SUN-SEG is cut from SUN's videos"),
    ("real-colon", "colon-bench", "Colon-Bench is made of REAL-Colon's videos"),
    ("real-colon", "temporal-segmentation", "its phases are labelled on REAL-Colon's videos"),
    ("polypsset", "cvc-colondb", "PolypsSet holds CVC-ColonDB"),
    ("polypsset", "miccai-2017", "PolypsSet holds the videos of MICCAI 2017"),
    ("polypsset", "glrc", "PolypsSet holds the videos of GLRC"),
)


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
        (reason for a, b, reason in _KNOWN if names == {plain_name(a), plain_name(b)}), None
    )
