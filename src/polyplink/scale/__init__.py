"""Archives beyond one run: the index of vectors."""

from polyplink.scale.exact import encode_rows, nearest
from polyplink.scale.index import Index, add_rows, approximated, build_index
from polyplink.scale.views import picture_of, view_rows

__all__ = [
    "Index",
    "add_rows",
    "approximated",
    "build_index",
    "encode_rows",
    "nearest",
    "picture_of",
    "view_rows",
]
