from polyplink.data import DataSet, Imported
from tests.data.made_sets import small_set


def test_an_import_is_a_data_set_and_its_warnings() -> None:
    imported = Imported(small_set(), ["1 x something odd (first: a)"])
    assert isinstance(imported.data, DataSet)
    assert imported.warnings == ["1 x something odd (first: a)"]
