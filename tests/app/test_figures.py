import json
from pathlib import Path

import numpy as np
import pytest

from polyplink.app.figures import FIGURES, FiguresRequest, draw, recall_at
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate import Samples
from tests.app.calls import assert_refused, polyplink
from tests.conftest import Made


def test_all_figures_are_drawn(made: Made, tmp_path: Path) -> None:
    usual = ("--device", "cpu", "--workers", "1", "--json")
    result = polyplink(
        "figures", made.run, made.data, "-o", tmp_path, "--beside", f"again={made.run}", *usual
    )
    assert result.exit_code == 0, result.stderr
    written = [Path(name) for name in json.loads(result.stdout)]
    assert [path.name for path in written] == [
        f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")
    ]
    assert all(path.stat().st_size > 1000 for path in written)
    assert (tmp_path / "run.json").is_file()


def test_recall_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(9, 3))
    polyps = ["a", "a", "b", "b", "b", "c", None, "d", "d"]
    samples = Samples.of([str(i) for i in range(9)], ["v"] * 9, polyps, np.linspace(0, 1, 9))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    naive = []
    for k in range(1, 6):
        hits = []
        for i, own in enumerate(polyps):
            if own is None or polyps.count(own) == 1:
                continue
            others = [j for j in range(9) if j != i and polyps[j] is not None]
            near = sorted(others, key=lambda j: -unit[i] @ unit[j])[:k]
            hits.append(any(polyps[j] == own for j in near))
        naive.append(np.mean(hits))
    assert np.allclose(recall_at(vectors, samples, 5), naive)
    alone = Samples.of(["0", "1"], ["v"] * 2, ["a", "b"], [0.0, 1.0])
    with pytest.raises(PolyplinkError, match="no tracklet has another of its polyp"):
        recall_at(vectors[:2], alone)


def test_bad_input_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no figure 'maps'; did you mean map"):
        draw(FiguresRequest(made.run, made.data, tmp_path, only=["maps"]))
    with pytest.raises(PolyplinkError, match="no part"):
        draw(FiguresRequest(made.run, made.data, tmp_path, part="night", only=["map"]))
    assert_refused(polyplink("figures", made.run, made.data, "--beside", "x"), "names no file")
