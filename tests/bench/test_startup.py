import pytest

from polyplink.bench.startup import HEAVY, IMPORT, imported, python, run
from polyplink.core.errors import PolyplinkError


def test_importing_polyplink_imports_nothing_heavy() -> None:
    assert imported(IMPORT, HEAVY) == []


def test_what_is_imported_is_named() -> None:
    assert imported("import json, csv", ("csv", "wave", "json")) == ["csv", "json"]


def test_the_result_holds_seconds_but_no_rival() -> None:
    result = run()
    assert result.ours_s > 0
    assert (result.rival, result.rival_s, result.ratio, result.exponent) == ("-", None, None, None)
    assert result.equal


def test_code_that_fails_gives_its_last_line() -> None:
    with pytest.raises(PolyplinkError, match="ended with 'ValueError: no'; install polyplink"):
        python("raise ValueError('no')")


def test_start_up_has_no_size() -> None:
    with pytest.raises(PolyplinkError, match="start-up of size 3; leave the size out"):
        run(3)
