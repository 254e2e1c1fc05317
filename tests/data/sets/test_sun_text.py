import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.sets.sun_text import SunLine, parse_case


def parse(text: str, strict: bool = False) -> tuple[list[SunLine], list[str]]:
    faults = Faults(strict)
    return parse_case(text.encode("utf-8-sig"), "case1.txt", faults), faults.lines()


def test_lines() -> None:
    lines, warnings = parse(
        "a b.jpg 1,2,3,4,0\r\nfolder/c.JPG 1,2,3,4,0 5,6.5,7,8,0\r\n\r\nd.jpg\ne 1,2,3,4,0\n\n"
    )
    assert warnings == []
    assert lines == [
        SunLine("a b", [(1, 2, 3, 4)]),
        SunLine("c", [(1, 2, 3, 4), (5, 6.5, 7, 8)]),
        SunLine("d", []),
        SunLine("e", [(1, 2, 3, 4)]),
    ]


def test_class_1_is_no_polyp() -> None:
    lines, warnings = parse("a.jpg 1,2,3,4,1\nb.jpg 1,2,3,4,0 1,2,3,4,1\n")
    assert lines == [SunLine("a", []), SunLine("b", [(1, 2, 3, 4)])]
    assert warnings == ["2 x box of class 1 (no polyp), not taken (first: case1.txt, line 1)"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("a.jpg 1,2,3,0", "line that cannot be read"),
        ("a.jpg 1,2,x,4,0", "line that cannot be read"),
        ("a.jpg 1,2,3,4,5,0", "line that cannot be read"),
        ("1,2,3,4,0", "line that cannot be read"),
        ("a.jpg 1 2 3 4 0", "line that cannot be read"),
        ("a.jpg 1,2,3,4,0 end", "line that cannot be read"),
        ("a.jpg 1,2,3,4,7", "box of an unknown class"),
        ("a.jpg 1,2,3,4,-1", "box of an unknown class"),
    ],
)
def test_broken_lines_are_counted_and_the_others_read(line: str, kind: str) -> None:
    lines, warnings = parse(f"{line}\nz.jpg 1,2,3,4,0\n")
    assert lines[-1] == SunLine("z", [(1, 2, 3, 4)])
    assert all(read.edges == [] for read in lines[:-1])
    assert len(warnings) == 1
    assert warnings[0].startswith(f"1 x {kind}, left out (first: case1.txt, line 1")
    with pytest.raises(PolyplinkError, match=f"line 1.*: {kind}; write"):
        parse(line, strict=True)
