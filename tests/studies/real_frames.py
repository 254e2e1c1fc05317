"""Do encoders distinguish real polyps that they have not seen? Run by `make study-real DATA=...`.

    make study-real DATA="EVALUATION --unlabelled TRAINING --imagenet WEIGHTS --simulated RUN
        --simulation SIMULATED"

EVALUATION: data folders (`polyplink import`) with polyp ids. TRAINING: folders of other
procedures; their ids are not used. WEIGHTS: weights of a backbone (`polyplink weights add --timm`).
RUN: an encoder trained on simulated procedures. SIMULATED: a data folder of simulated procedures.
Starting from the ImageNet weights, --recipe (NTSSL) is trained on simulated procedures, on real
frames, and on both in turn. Each encoder is also whitened on the unlabelled frames, without and
with tone. Every tracklet is a query; intervals are over polyps.

The study can be interrupted and run again, because --out keeps its trainings. It writes the table
table.md there.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink import train
from polyplink.cli.options import TrackletOptions
from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.merge import merge
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.adapt import CROPS, fitted_to_crops
from polyplink.encoders.device import pick_device
from polyplink.encoders.encode import Encoded, encode
from polyplink.encoders.load import baselines, load_encoder, load_named
from polyplink.encoders.weights import WEIGHTS_FILE, guard, save_weights, weights_path
from polyplink.evaluate.evaluation import EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.truth import samples_of
from polyplink.learn.train_config import LAST
from polyplink.recipes.by_name import find_recipe, override
from polyplink.report.formats import figure_text
from polyplink.tracklets.prepare import prepare, typical_crops
from polyplink.tracklets.settings import with_options

FIGURES = ("mAP", "HR@1", "AUROC")
HISTOGRAM = "colour histogram"
WORKERS = 2


def frame_options(max_gap: int) -> TrackletOptions:
    """Options by which every run of boxes is a tracklet, and every box gives a crop."""
    return TrackletOptions(min_length=1, max_gap=max_gap, min_iou=0.0, min_seconds=0.0, stride=1)


def merge_without_ids(folders: Sequence[Path], out: Path) -> Path:
    """Merge several data folders into one without polyp ids."""
    data = merge([(folder, read_data(folder)) for folder in folders])
    boxes = data.detections.with_columns(polyp_id=pl.lit(None, pl.String))
    write_data(out, DataSet.of(boxes, data.procedures, data.polyps.clear()))
    return out


def image_paths(folder: Path) -> set[str]:
    """The paths of all images of a data folder."""
    data = read_data(folder)
    rows = data.detections.join(data.procedures, "procedure_id").select("source", "image")
    return {str((folder / source / image).resolve()) for source, image in rows.drop_nulls().rows()}


def units_by_polyp(samples: Samples, polyps: Sequence[str]) -> Samples:
    """The same samples with polyps as the units of the bootstrap."""
    return Samples.of(samples.tracklet_ids, polyps, polyps, samples.positions)


def train_or_resume(
    start: Path, data: Path, run: Path, arguments: argparse.Namespace, real: bool
) -> Path:
    """Train a backbone by NTSSL on single frames of a data folder, or resume its training."""
    if (run / WEIGHTS_FILE).is_file():
        return run
    loaded = load_encoder(start, pick_device("cpu"))
    settings = loaded.record.prepare
    options = frame_options(arguments.max_gap) if real else TrackletOptions(stride=arguments.stride)
    recipe = override(
        find_recipe(arguments.recipe),
        [
            "fragment_length=1",
            "validation.every=0",
            "optim.bags_per_batch=48",
            f"optim.epochs={arguments.epochs}",
            f"optim.rate={arguments.rate}",
            f"seed={arguments.seed}",
        ],
    )
    recipe = replace(recipe, name=run.name, encoder=loaded.record.encoder)
    recipe = replace(
        recipe,
        prepare=replace(recipe.prepare, size=settings.size, crop_factor=settings.crop_factor),
    )
    part = "all" if real or "train" not in read_data(data).splits else "train"
    train(
        recipe,
        data,
        out=run,
        part=part,
        init_from=start,
        resume=(run / LAST).is_file(),
        device=arguments.device,
        **options,
    )
    print(f"trained {run.name}", flush=True)
    return run


def whiten_for(
    start: Path, data: Path, out: Path, tone: float, arguments: argparse.Namespace
) -> Path:
    """Adapt an encoder to the crops of a data folder, as `weights adapt --whiten --tone` does."""
    if not out.is_file():
        loaded = load_encoder(start, pick_device(arguments.device))
        settings = with_options(loaded.record.prepare, frame_options(arguments.max_gap))
        crops = typical_crops(prepare(data, settings, procedures="all", workers=WORKERS), CROPS)
        encoder = fitted_to_crops(loaded.encoder, crops, tone, whiten=True)
        save_weights(out, encoder, replace(loaded.record, encoder=encoder.config, operating=None))
    return out


def weights_of(arguments: argparse.Namespace) -> dict[str, Path]:
    """Weights by the name of their row; missing ones are trained."""
    runs, start = arguments.out / "runs", weights_path(arguments.imagenet)
    weights = {f"simulator, {run.name}": run for run in arguments.simulated}
    weights["ImageNet, frozen"] = start
    unlabelled = None
    if arguments.unlabelled:
        unlabelled = merge_without_ids(arguments.unlabelled, arguments.out / "unlabelled")
        weights["ImageNet, real frames"] = train_or_resume(
            start, unlabelled, runs / "imagenet-real", arguments, real=True
        )
    if arguments.simulation is not None:
        run = train_or_resume(
            start, arguments.simulation, runs / "imagenet-simulator", arguments, real=False
        )
        weights["ImageNet, simulator"] = run
        if unlabelled is not None:
            weights["ImageNet, simulator, real frames"] = train_or_resume(
                run, unlabelled, runs / "imagenet-simulator-real", arguments, real=True
            )
    if unlabelled is not None:
        for name, path in list(weights.items()):
            if name.startswith("ImageNet"):
                stem = name.lower().replace(", ", "-").replace(" ", "-")
                for tone, suffix in ((0.0, "whitened"), (arguments.tone, "whitened with tone")):
                    out = runs / f"{stem}-{suffix.replace(' ', '-')}.safetensors"
                    weights[f"{name}, {suffix}"] = whiten_for(
                        path, unlabelled, out, tone, arguments
                    )
    return weights


def embed_rows(
    folder: Path, weights: Mapping[str, Path], arguments: argparse.Namespace
) -> tuple[Encoded, list[str]]:
    """Embed one folder with all encoders and baselines; also the polyp of every tracklet."""
    data, options = read_data(folder), frame_options(arguments.max_gap)
    encoders = []
    for name, path in weights.items():
        encoder = load_named(path, arguments.device, name, tracklets=options)
        assert encoder.record is not None
        guard(encoder.record.seen, data, "all")
        encoders.append(encoder)
    frozen = encoders[list(weights).index("ImageNet, frozen")]
    untrained, histogram = baselines(frozen)
    rows = [histogram, replace(untrained, name="untrained"), *encoders]
    encoded = encode(rows, folder, "all")
    return encoded, encoded.table["polyp_id"].to_list()


def table_of(folder: Path, weights: Mapping[str, Path], arguments: argparse.Namespace) -> str:
    """Evaluate all rows on one folder; a table in Markdown."""
    encoded, polyps = embed_rows(folder, weights, arguments)
    samples = units_by_polyp(samples_of(encoded.prepared), polyps)
    settings = EvaluationSettings(tasks=("retrieval", "reid"))
    differences = {}
    for reference in (HISTOGRAM, "ImageNet, frozen"):
        vectors = {reference: encoded.vectors[reference], **encoded.vectors}  # the first one
        results, _ = evaluate_embeddings(vectors, samples, settings)
        differences[reference] = results.minus_reference
    queries = results.encoders[HISTOGRAM].figures["mAP"]
    lines = [
        f"{folder.name}: {results.tracklets} tracklets, {queries.n} polyps",
        "",
        f"| | {' | '.join(FIGURES)} | mAP minus histogram | mAP minus ImageNet |",
        "|---|---|---|---|---|---|",
    ]
    for name in encoded.vectors:
        of_encoder = results.encoders[name].figures
        cells = [figure_text(of_encoder[figure]) for figure in FIGURES]
        cells += [
            figure_text(by_encoder[name]["mAP"]) if name in by_encoder else ""
            for by_encoder in differences.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line, train missing encoders, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, nargs="+", help="data folders with polyp ids")
    parser.add_argument("--unlabelled", type=Path, nargs="*", default=[])
    parser.add_argument("--imagenet", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, nargs="*", default=[])
    parser.add_argument("--simulation", type=Path)
    parser.add_argument("--out", type=Path, default=Path("study-real"))
    parser.add_argument("--max-gap", type=int, default=10, help="largest step within a tracklet")
    parser.add_argument("--stride", type=int, default=16, help="of simulated boxes")
    parser.add_argument("--recipe", default="ntssl-small")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--tone", type=float, default=0.5, help="weight of tone beside a vector")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    evaluated_images = set().union(*map(image_paths, arguments.data))
    for folder in arguments.unlabelled:
        if evaluated_images & image_paths(folder):
            raise PolyplinkError(f"{folder} has images of the evaluation", "leave it out")
    weights = weights_of(arguments)
    text = "\n".join(table_of(folder, weights, arguments) for folder in arguments.data)
    write_text(arguments.out / "table.md", text)
    print(text)


if __name__ == "__main__":
    try:
        main()
    except PolyplinkError as error:
        sys.exit(str(error))
