import json

import pytest

from polyplink.bench.catalogue import CATALOGUE
from polyplink.core.artefacts import to_plain


@pytest.mark.parametrize("name", ["startup", "tracklets", "bags"])
def test_a_result_bears_its_name_in_the_catalogue_and_is_json(name: str) -> None:
    bench = CATALOGUE[name]
    result = bench.run(min(bench.size, 2000))
    assert result.name == name
    line = json.loads(json.dumps(to_plain(result)))
    assert list(line) == [
        "name",
        "rival",
        "size",
        "ours_s",
        "rival_s",
        "ratio",
        "exponent",
        "equal",
        "rate",
        "peak_mb",
        "also",
    ]


def test_every_benchmark_says_what_it_measures() -> None:
    for bench in CATALOGUE.values():
        assert bench.run.__doc__
        assert bench.size >= 1
