"""Archives beyond one run: shards, work by Ray, the index of vectors."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.scale.exact import encode_rows as encode_rows, nearest as nearest
    from polyplink.scale.index import (
        Index as Index,
        add_rows as add_rows,
        approximated as approximated,
        build_index as build_index,
        picture_of as picture_of,
        view_rows as view_rows,
    )
    from polyplink.scale.on_ray import on_ray as on_ray, shard as shard

hand_on(__name__)
