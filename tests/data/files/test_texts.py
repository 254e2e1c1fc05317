import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.texts import decode_text, short_number


def test_text_with_and_without_a_mark() -> None:
    assert decode_text("é\r\n".encode(), "x") == "é\r\n"
    assert decode_text("é".encode("utf-8-sig"), "x") == "é"
    with pytest.raises(PolyplinkError, match=r"x\.txt is not UTF-8 text; save it as UTF-8"):
        decode_text("é".encode("latin-1"), "x.txt")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_come_back(value: float) -> None:
    text = short_number(value)
    assert np.float32(text) == np.float32(value)
    assert "e" not in text


def test_numbers_are_short() -> None:
    texts = [short_number(float(np.float32(value))) for value in (11.74, 25, 0.1)]
    assert texts == ["11.74", "25", "0.1"]
