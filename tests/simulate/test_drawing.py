import numpy as np

from polyplink.simulate.drawing import (
    GAP,
    LINE,
    MARGIN,
    PAPER,
    colour_of,
    contact_sheet,
    fit,
    mark,
)

GREY = np.full((20, 40, 3), 90, np.uint8)


def test_a_name_keeps_its_colour() -> None:
    assert colour_of("001-001_1") == colour_of("001-001_1")
    assert len({colour_of(f"001-001_{k}") for k in range(30)}) > 3


def test_a_picture_keeps_its_shape() -> None:
    fitted = fit(GREY, (20, 20))
    assert fitted.shape == (20, 20, 3)
    assert (fitted[5:15] == 90).all()
    assert (fitted[:5] == 0).all()
    assert (fitted[15:] == 0).all()


def test_a_box_is_drawn_around_the_polyp() -> None:
    plain = np.full((60, 60, 3), 90, np.uint8)
    marked = mark(plain, [("one", (10, 28, 6, 5))])
    assert (plain == 90).all()
    assert (marked[28:34, 10:17] == 90).all()  # first to last pixel stay visible
    assert (marked[27, 9:18] == colour_of("one")).all()
    assert (marked[34, 9:18] == colour_of("one")).all()
    assert (marked[:26] != 90).any()  # the name


def test_a_sheet_holds_every_picture_in_its_place() -> None:
    rows = [("first", [("a", GREY)]), ("second", [("b", GREY), ("c", GREY)])]
    sheet = contact_sheet(rows, (40, 20))
    assert sheet.shape == (GAP + 2 * (20 + GAP + LINE), MARGIN + 2 * (40 + GAP) + GAP, 3)
    for row, column in ((0, 0), (1, 0), (1, 1)):
        top, left = GAP + row * (20 + GAP + LINE), MARGIN + column * (40 + GAP)
        assert (sheet[top : top + 20, left : left + 40] == 90).all()
    left = MARGIN + 40 + GAP
    assert (sheet[GAP : GAP + 20, left : left + 40] == PAPER).all()  # the first row is shorter
