"""Archives beyond one run: shards, work by Ray, the index of vectors."""

from polyplink.scale.exact import encode_rows, nearest
from polyplink.scale.index import Index, add_rows, approximated, build_index
from polyplink.scale.on_ray import on_ray
from polyplink.scale.shards import shard
from polyplink.scale.views import picture_of, view_rows

__all__ = [
    "Index",
    "add_rows",
    "approximated",
    "build_index",
    "encode_rows",
    "nearest",
    "on_ray",
    "picture_of",
    "shard",
    "view_rows",
]
