import pytest

from polyplink.evaluate.clinic import clinic_figures, clinic_row


def test_rates_of_three_procedures_by_hand() -> None:
    rows = [
        # An adenoma in two clusters, a hyperplastic polyp alone.
        clinic_row("v", [0, 0, 1, 2], [0, 0, 0, 1], [True, True, True, False]),
        # An adenoma lost among the views of another polyp.
        clinic_row("w", [0, 0, 0], [2, 2, 3], [False, False, True]),
        # No adenoma; one polyp of unknown histology joins the other's cluster.
        clinic_row("x", [5, 5], [4, 5], [False, None]),
    ]
    found = clinic_figures(rows)
    assert found is not None
    assert [row.polyps for row in rows] == [2, 2, 2]
    assert [row.counted for row in rows] == [3, 1, 1]
    assert [row.adenomas for row in rows] == [1, 1, 0]
    assert [row.adenomas_counted for row in rows] == [2, 0, 0]
    rates = [found.ppc, found.ppc_counted, found.apc, found.apc_counted, found.adr]
    assert rates == pytest.approx([2.0, 5 / 3, 2 / 3, 2 / 3, 2 / 3])
    assert found.adr_counted == pytest.approx(1 / 3)
    assert (found.procedures, found.with_histology) == (3, 3)


def test_a_tie_is_an_adenoma_and_unknown_histology_is_not_a_no() -> None:
    tie = clinic_row("v", [0, 0], [0, 1], [True, False])
    assert tie.adenomas_counted == 1
    unknown = clinic_row("w", [0, 1], [2, 3], [None, None])
    assert (unknown.adenomas, unknown.adenomas_counted) == (None, None)
    found = clinic_figures([tie, unknown])
    assert found is not None
    assert (found.adr, found.with_histology, found.procedures) == (1.0, 1, 2)
    nothing = clinic_figures([unknown])
    assert nothing is not None
    assert (nothing.adr, nothing.apc) == (None, None)
    assert clinic_figures([]) is None
