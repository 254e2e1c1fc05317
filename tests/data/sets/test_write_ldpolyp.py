from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.write_ldpolyp import write_ldpolyp
from tests.data.made_sets import data_set, procedure_row, small_set


def test_every_frame_has_its_file(tmp_path: Path) -> None:
    data = data_set([("Test_7", 1, 1, 2, 3, 4, None), ("Test_7", 1, 5, 5, 1, 1, None)], [],
                    [procedure_row("Test_7", 3)])  # fmt: skip
    write_ldpolyp(data, tmp_path)
    texts = {p.name: p.read_text() for p in (tmp_path / "Test" / "Annotations" / "7").iterdir()}
    assert texts == {
        "0001.txt": "0\n",
        "0002.txt": "2\n1 2 4 6\n5 5 6 6\n",
        "0003.txt": "0\n",
    }


def test_what_the_layout_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="'001-001' is in no part of LDPolypVideo; name it"):
        write_ldpolyp(small_set(), tmp_path)
    data = data_set([("Test_7", 0, 1.5, 2, 3, 4, None)], [], [procedure_row("Test_7", 1)])
    with pytest.raises(PolyplinkError, match="is not of whole pixels, as LDPolypVideo needs"):
        write_ldpolyp(data, tmp_path)
