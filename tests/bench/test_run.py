import pytest

from polyplink.bench import CATALOGUE, run_benches
from polyplink.errors import PolyplinkError


def test_one_benchmark_at_a_size() -> None:
    (result,) = run_benches("tracklets", 400)
    assert (result.name, result.size, result.equal) == ("tracklets", 400, True)
    assert "faster than" in result.line()
    assert result.line().endswith("equal")


def test_an_unknown_name_gets_the_nearest_or_all() -> None:
    with pytest.raises(PolyplinkError, match="did you mean tracklets"):
        next(run_benches("trackets"))
    with pytest.raises(PolyplinkError, match="choose one of: " + ", ".join(CATALOGUE)):
        next(run_benches("xyz"))
