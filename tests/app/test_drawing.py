import json
from pathlib import Path

from tests.app.calls import assert_refused, polyplink
from tests.conftest import Made


def test_figures_are_drawn_and_named(made: Made, tmp_path: Path) -> None:
    usual = ("-o", tmp_path, "--only", "recall", "--device", "cpu", "--workers", "1", "--json")
    result = polyplink("figures", made.run, made.data, *usual)
    assert result.exit_code == 0, result.stderr
    assert [Path(name).name for name in json.loads(result.stdout)] == ["recall.svg", "recall.png"]
    assert_refused(polyplink("figures", made.run, made.data, "--beside", "x"), "names no file")
