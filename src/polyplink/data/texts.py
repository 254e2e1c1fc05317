"""Bytes of a small file to text, as people's editors leave them: with or without a mark."""

from polyplink.errors import PolyplinkError


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
