"""Shards: the procedures of an archive divided among runs on any scheduler."""

import hashlib
import re
from collections.abc import Sequence

from polyplink.core.errors import PolyplinkError


def shard(procedures: Sequence[str], which: str) -> list[str]:
    """The procedures of one of n shards.

    A hash of its name decides where a procedure belongs, so that others that are added later move
    none. Shards of many procedures are about equally large; of few, some may be empty.

    Args:
        procedures: Ids of procedures.
        which: "I/N", the shard I of N, from 1.

    Raises:
        PolyplinkError: If it is not I/N, or I is not one of 1 to N.

    Example:
        >>> [shard(["001-001", "001-002", "001-003"], f"{i}/2") for i in (1, 2)]
        [['001-001'], ['001-002', '001-003']]
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", which, re.ASCII)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    PolyplinkError.unless(
        1 <= number <= count,
        f"--shard {which}: no such shard",
        "give I/N, with I from 1 to N, as in 2/8",
    )
    hashes = (int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in procedures)
    return [name for name, own in zip(procedures, hashes, strict=True) if own % count == number - 1]
