import pytest

from polyplink.data.texts import decode_text
from polyplink.errors import PolyplinkError


def test_text_with_and_without_a_mark() -> None:
    assert decode_text("é\r\n".encode(), "x") == "é\r\n"
    assert decode_text("é".encode("utf-8-sig"), "x") == "é"
    with pytest.raises(PolyplinkError, match=r"x\.txt is not UTF-8 text; save it as UTF-8"):
        decode_text("é".encode("latin-1"), "x.txt")
