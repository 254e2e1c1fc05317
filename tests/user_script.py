"""A typical user's script, which mypy checks in strict mode (`make check`)."""

from pathlib import Path

import polars as pl

from polyplink import Counted, Evaluated, PolyplinkError, Result, evaluate_weights, run, train
from polyplink.data.tables import DataSet, read_data
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl_demo


def count_video(video: Path, weights: Path) -> pl.DataFrame:
    """The views of every polyp of a recording."""
    counted: Result[Counted] = run(video, weights=weights, detector="detector.onnx")
    return counted.value.views


def compare(data: Path) -> dict[str, float]:
    """Train for one epoch, and evaluate the weights."""
    recipe = override(ntssl_demo(), ["optim.epochs=1"])
    trained = train(recipe, data, out="run")
    try:
        evaluated: Result[Evaluated] = evaluate_weights(trained.value.weights, data)
    except PolyplinkError as error:
        raise SystemExit(str(error)) from error
    figures = evaluated.value.figures
    return dict(zip(figures["metric"], figures["value"], strict=True))


tables: DataSet = read_data(Path("data"))
boxes: int = tables.detections.height
samples = Samples.of(["a", "b"], ["v", "v"], ["p", "p"], [0.0, 1.0])
mean_ap: float | None = retrieve([[1.0, 0.0], [0.0, 1.0]], samples).mean_ap
