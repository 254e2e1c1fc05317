"""Reading settings and tables imports neither torch nor other heavy libraries."""

from polyplink_lab.bench.cases import imported


def test_settings_and_tables_import_no_heavy_library() -> None:
    code = """
from polyplink.data.formats.csv import import_csv
from polyplink.data.tables import read_data
from polyplink.encoders.weights import read_record
from polyplink.recipes.by_name import find_recipe, override
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.presets import preset
override(find_recipe("ntssl"), ["loss.form=anchored"])
preset("smoke")
"""
    assert imported(code, ("torch", "numba", "timm", "sklearn", "matplotlib")) == []
