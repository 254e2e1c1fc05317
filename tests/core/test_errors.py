"""The one exception."""

import pickle

import pytest

from polyplink.core.errors import PolyplinkError, find_named, first_line


def test_it_reads_as_one_line_with_a_way_out() -> None:
    error = PolyplinkError("table polyps: no rows", "import again")
    assert str(error) == "table polyps: no rows; import again"
    assert (error.what, error.mend) == ("table polyps: no rows", "import again")
    PolyplinkError.unless(True, "a", "b")
    with pytest.raises(PolyplinkError, match="a; b"):
        PolyplinkError.unless(False, "a", "b")


def test_it_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(PolyplinkError("a", "b")))
    assert isinstance(error, PolyplinkError)
    assert str(error) == "a; b"


def test_first_line() -> None:
    assert first_line(ValueError("bad\n\nYou might want to try ...")) == "bad"
    assert first_line(ValueError()) == "ValueError"


def test_names_are_found_or_the_nearest_is_told() -> None:
    known = {"tiny": 1, "smoke": 2}
    assert find_named("preset", "tiny", known) == 1
    with pytest.raises(PolyplinkError, match=r"no preset 'tinny'; did you mean tiny\?"):
        find_named("preset", "tinny", known)
    with pytest.raises(PolyplinkError, match="no preset 'xyz'; choose one of: tiny, smoke"):
        find_named("preset", "xyz", known)
