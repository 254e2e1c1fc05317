import polars as pl

from polyplink.data import POLYPS
from polyplink.data.faults import Faults
from polyplink.data.formats.polyp_rows import name_polyps, part_polyps, polyp_rows

TEXT = {"procedure_id": pl.String, "polyp_id": pl.String, "track": pl.String}


def test_tracks_get_names() -> None:
    boxes = pl.DataFrame(
        [("v", "p", "1"), ("v", None, "1"), ("v", None, "2"), ("w", None, "1"), ("w", None, None)],
        schema=TEXT,
        orient="row",
    )
    side = pl.DataFrame([("v", "known", "1")], schema=TEXT, orient="row")
    faults = Faults()
    named = name_polyps(boxes, side, faults)
    assert named["polyp_id"].to_list() == ["p", "known", "v_2", "w_1", None]
    assert faults.lines() == ["2 x track taken as a polyp of its own (first: v_2)"]


def test_one_name_in_two_procedures_is_parted() -> None:
    boxes = pl.DataFrame({"procedure_id": ["v", "w", "w"], "polyp_id": ["1", "1", "2"]})
    facts = pl.DataFrame({"procedure_id": ["w"], "polyp_id": ["1"], "size_mm": [3.0]})
    faults = Faults()
    boxes, facts = part_polyps(boxes, facts, faults)
    assert boxes["polyp_id"].to_list() == ["v_1", "w_1", "2"]
    assert facts["polyp_id"].to_list() == ["w_1"]
    assert "1 x polyp id in several procedures" in faults.lines()[0]


def test_a_row_for_each_and_the_first_value_counts() -> None:
    boxes = pl.DataFrame({"procedure_id": ["v", "v", "v"], "polyp_id": ["a", "b", None]})
    facts = pl.DataFrame(
        {
            "procedure_id": ["v", "v", "v"],
            "polyp_id": ["b", "b", "b"],
            "size_mm": [None, 3.0, 4.0],
            "location": [None, "Trasnverse", None],
        }
    )
    faults = Faults()
    rows = polyp_rows(boxes, facts, faults)
    assert rows.columns == list(POLYPS)
    assert rows.select("polyp_id", "size_mm", "location").rows() == [
        ("b", 3.0, "transverse"),
        ("a", None, None),
    ]
    told = "1 x polyp of which the source says two things, the first taken (first: b)"
    assert faults.lines() == [told]
