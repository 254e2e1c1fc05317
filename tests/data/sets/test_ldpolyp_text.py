import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.ldpolyp_text import parse_boxes


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        (b"0\n", []),
        (b"0", []),
        (b"1\n10 20 30 40\n", [(10, 20, 30, 40)]),
        (b"\xef\xbb\xbf2\r\n1 2 3 4\r\n  5\t6 7 8 \r\n\r\n\n", [(1, 2, 3, 4), (5, 6, 7, 8)]),
        (b"1\n1.5 2 3 -4\n", [(1.5, 2, 3, -4)]),
    ],
)
def test_annotations(text: bytes, boxes: list[tuple[float, ...]]) -> None:
    assert parse_boxes(text, "x.txt") == boxes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "x.txt begins with '', not a number of boxes; download"),
        (b"-1\n", "begins with '-1', not a number"),
        (b"1 2 3 4\n", "begins with '1 2 3 4', not a number"),
        ("²\n".encode(), "not a number of boxes"),
        (b"2\n1 2 3 4\n", "has 1 boxes and says 2"),
        (b"0\n1 2 3 4\n", "has 1 boxes and says 0"),
        (b"1\n1 2 3\n", "'1 2 3' is not four numbers"),
        (b"1\n1 2 3 four\n", "'1 2 3 four' is not four numbers"),
        (b"\xff\xfe1\x00", "is not UTF-8 text"),
    ],
)
def test_broken_annotations(text: bytes, message: str) -> None:
    with pytest.raises(PolyplinkError) as error:
        parse_boxes(text, "x.txt")
    assert message in str(error.value)
