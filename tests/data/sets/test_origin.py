from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.faults import Faults
from polyplink.data.files.trees import open_tree
from polyplink.data.sets.ldpolyp import import_ldpolyp
from polyplink.data.sets.origin import Origin, read_origin, write_origin
from polyplink.data.sets.polyp_size import import_polyp_size
from polyplink.data.sets.polypsset import import_polypsset
from polyplink.data.sets.real_colon import import_real_colon
from polyplink.data.sets.sun import import_sun
from polyplink.data.sets.write_ldpolyp import write_ldpolyp
from polyplink.data.sets.write_polyp_size import write_polyp_size
from polyplink.data.sets.write_polypsset import write_polypsset
from polyplink.data.sets.write_real_colon import write_real_colon
from polyplink.data.sets.write_sun import write_sun
from tests.data.made_sets import data_set, procedure_row, small_set
from tests.data.public_sets import picture

NAME = "simulated tiny 3"
WRITERS = [
    ("Test_1", write_ldpolyp, import_ldpolyp),
    ("case1", write_sun, import_sun),
    ("val_1", write_polypsset, import_polypsset),
    ("01", write_polyp_size, import_polyp_size),
]


@pytest.mark.parametrize(("procedure_id", "write", "read"), WRITERS)
def test_what_is_simulated_is_never_called_real(
    tmp_path: Path, procedure_id: str, write: object, read: object
) -> None:
    assert callable(write)
    assert callable(read)
    row = procedure_row(procedure_id, 1, dataset=NAME)
    data = data_set([(procedure_id, 0, 1, 2, 3, 4, None)], [], [row])
    write(data, tmp_path, frames=picture(data))
    assert read(tmp_path).data.procedures["dataset"].to_list() == [NAME]


def test_real_colon_s_layout_tells_it_too(tmp_path: Path) -> None:
    row = procedure_row("001-001", 1, dataset=NAME)
    write_real_colon(data_set([], [], [row]), tmp_path)
    assert (tmp_path / "dataset.txt").read_text() == f"{NAME}\n"
    assert import_real_colon(tmp_path).data.procedures["dataset"].to_list() == [NAME]
    (tmp_path / "dataset.txt").write_bytes(b"\xff")
    with pytest.raises(PolyplinkError, match=r"dataset\.txt is not UTF-8 text"):
        import_real_colon(tmp_path)
    (tmp_path / "dataset.txt").write_text("")
    assert import_real_colon(tmp_path).data.procedures["dataset"].to_list() == ["real-colon"]


def test_a_set_in_its_own_layout_needs_no_file(tmp_path: Path) -> None:
    here = str(tmp_path.resolve())
    write_origin(small_set(), tmp_path, "real-colon")
    assert list(tmp_path.iterdir()) == []
    assert read_origin(open_tree(tmp_path, Faults()), "sun") == Origin("sun", here)
    write_origin(small_set(), tmp_path, "sun")
    assert read_origin(open_tree(tmp_path, Faults()), "sun") == Origin("real-colon", here)
    mixed = small_set().procedures.with_columns(dataset=pl.Series(["a", "b", "a"]))
    data = DataSet.of(small_set().detections, mixed, small_set().polyps)
    with pytest.raises(PolyplinkError, match=r"several data sets \(a, b\); write each into"):
        write_origin(data, tmp_path, "sun")
