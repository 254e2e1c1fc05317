from io import StringIO

from rich.console import Console

from polyplink.report.reproduced import places, reproduced_table
from tests.report.reproduced_sample import sample


def shown(incomparable: str) -> str:
    console = Console(width=140, file=StringIO(), record=True)
    console.print(reproduced_table(sample(incomparable)))
    return console.export_text()


def test_numbers_stand_side_by_side() -> None:
    text = shown("")
    assert "61.50 [58.25, 64.00]" in text
    assert "−1.63" in text
    assert "2.32 ± 1.8" in text
    assert "2.40 ± 1.75" in text
    assert "63.13*" in text  # remarked
    assert "SIMULATED" not in text


def test_what_is_simulated_says_so_in_the_heading() -> None:
    text = shown("SIMULATED data")
    assert "SIMULATED" in text
    assert sample().banner.startswith("SIMULATED data: not comparable")
    assert sample("").banner == ""


def test_reasons_and_remarks_name_their_cells() -> None:
    result = sample()
    assert result.computed == 2
    ((why, cells),) = result.reasons.items()
    assert why.startswith("weights of endofm")
    assert places(cells) == "Self & others: Endo<FM> (mAP)"
    assert [remark for remark, _ in result.remarks] == ["odd"]
    assert places([cells[0]] * 2) == places(cells)
