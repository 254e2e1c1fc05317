import json

from tests.cli.calls import assert_refused, polyplink


def test_bench_prints_one_object_per_path() -> None:
    result = polyplink("bench", "bags", "--size", "64", "--json")
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert (found["name"], found["size"], found["equal"]) == ("bags", 64, True)


def test_an_unknown_path_is_refused_with_the_nearest() -> None:
    assert_refused(polyplink("bench", "sweeep"), "did you mean sweep")
