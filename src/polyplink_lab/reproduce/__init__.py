"""The published tables as data, their encoders, and our figures beside theirs."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink_lab.reproduce.published_tables import (
        Cell as Cell,
        PublishedTable as PublishedTable,
        published_table as published_table,
    )

hand_on(__name__)
