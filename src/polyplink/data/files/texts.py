"""Texts of small files: bytes as people's editors leave them, numbers as people write them."""

import numpy as np

from polyplink.core.errors import PolyplinkError


def decode_text(data: bytes, name: str) -> str:
    """Decode UTF-8 text; a byte order mark is dropped.

    Args:
        data: The file's bytes.
        name: The file's name, for messages.

    Raises:
        PolyplinkError: If it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PolyplinkError(
            f"{name} is not UTF-8 text", "save it as UTF-8, or download it again"
        ) from None


def short_number(value: float) -> str:
    """The shortest text that gives the same float32 back (11.74, 25)."""
    return np.format_float_positional(np.float32(value), trim="-")
