"""Do encoders tell real polyps apart that they have not seen? Run by `make study-real DATA=...`.

    make study-real DATA="EVALUATION --unlabelled TRAINING --imagenet WEIGHTS --simulated RUN
        --simulation SIMULATED"

EVALUATION are data folders (`polyplink import`) whose boxes have polyp ids, TRAINING are folders
of other procedures, whose ids are not used. WEIGHTS are those of a backbone (`polyplink weights add
--timm`), RUN is an encoder that was trained on simulated procedures, SIMULATED is a data folder of
such. From the ImageNet weights --recipe (NTSSL) is trained on each: on simulated procedures, on
real frames, and on one after the other; each is whitened by the unlabelled frames as well, without
and with tone. Every tracklet is a query; intervals are over polyps.

It can be killed and run again: --out keeps the trainings. Its table is table.md there.
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
from polyplink.data.merged import merge
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.adapt import CROPS, fitted_to_crops
from polyplink.encoders.build import load_encoder
from polyplink.encoders.device import pick_device
from polyplink.encoders.encode import Encoded, encode, prepare_part
from polyplink.encoders.leakage import guard
from polyplink.encoders.load import baselines, load_named
from polyplink.encoders.weights import WEIGHTS_FILE, save_weights, weights_path
from polyplink.evaluate.evaluation import EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.truth import samples_of
from polyplink.learn.train_config import LAST
from polyplink.recipes.by_name import find_recipe, override
from polyplink.report.formats import figure_text
from polyplink.tracklets.prepare import typical_crops
from polyplink.tracklets.settings import with_options

FIGURES = ("mAP", "HR@1", "AUROC")
HISTOGRAM = "colour histogram"
WORKERS = 2


def of_frames(max_gap: int) -> TrackletOptions:
    """Every run of boxes is a tracklet, however short, and every box a crop."""
    return TrackletOptions(min_length=1, max_gap=max_gap, min_iou=0.0, min_seconds=0.0, stride=1)


def without_ids(folders: Sequence[Path], out: Path) -> Path:
    """A data folder of several, without polyp ids."""
    data = merge([(folder, read_data(folder)) for folder in folders])
    boxes = data.detections.with_columns(polyp_id=pl.lit(None, pl.String))
    write_data(out, DataSet.of(boxes, data.procedures, data.polyps.clear()))
    return out


def images(folder: Path) -> set[str]:
    """The places of all images of a data folder."""
    data = read_data(folder)
    rows = data.detections.join(data.procedures, "procedure_id").select("source", "image")
    return {str((folder / source / image).resolve()) for source, image in rows.drop_nulls().rows()}


def by_polyp(samples: Samples, polyps: Sequence[str]) -> Samples:
    """The same samples with each polyp as the unit that is drawn with replacement."""
    return Samples.of(samples.tracklet_ids, polyps, polyps, samples.positions)


def trained(start: Path, data: Path, run: Path, given: argparse.Namespace, real: bool) -> Path:
    """A backbone trained by NTSSL on single frames of a data folder, or resumed."""
    if (run / WEIGHTS_FILE).is_file():
        return run
    loaded = load_encoder(start, pick_device("cpu"))
    settings = loaded.record.prepare
    options = of_frames(given.max_gap) if real else TrackletOptions(stride=given.stride)
    recipe = override(
        find_recipe(given.recipe),
        [
            "fragment_length=1",
            "validation.every=0",
            "optim.bags_per_batch=48",
            f"optim.epochs={given.epochs}",
            f"optim.rate={given.rate}",
            f"seed={given.seed}",
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
        device=given.device,
        **options,
    )
    print(f"trained {run.name}", flush=True)
    return run


def whitened(start: Path, data: Path, out: Path, tone: float, given: argparse.Namespace) -> Path:
    """An encoder as `weights adapt --whiten --tone` leaves it for the crops of a data folder."""
    if not out.is_file():
        loaded = load_encoder(start, pick_device(given.device))
        settings = with_options(loaded.record.prepare, of_frames(given.max_gap))
        crops = typical_crops(prepare_part(data, settings, "all", WORKERS), CROPS)
        encoder = fitted_to_crops(loaded.encoder, crops, tone, whiten=True)
        save_weights(out, encoder, replace(loaded.record, encoder=encoder.config, operating=None))
    return out


def weights_of(given: argparse.Namespace) -> dict[str, Path]:
    """Weights by the name of their row, trained where they are not there."""
    runs, start = given.out / "runs", weights_path(given.imagenet)
    found = {f"simulator, {run.name}": run for run in given.simulated}
    found["ImageNet, frozen"] = start
    unlabelled = None
    if given.unlabelled:
        unlabelled = without_ids(given.unlabelled, given.out / "unlabelled")
        found["ImageNet, real frames"] = trained(
            start, unlabelled, runs / "imagenet-real", given, real=True
        )
    if given.simulation is not None:
        run = trained(start, given.simulation, runs / "imagenet-simulator", given, real=False)
        found["ImageNet, simulator"] = run
        if unlabelled is not None:
            found["ImageNet, simulator, real frames"] = trained(
                run, unlabelled, runs / "imagenet-simulator-real", given, real=True
            )
    if unlabelled is not None:
        for name, path in list(found.items()):
            if name.startswith("ImageNet"):
                stem = name.lower().replace(", ", "-").replace(" ", "-")
                for tone, said in ((0.0, "whitened"), (given.tone, "whitened with tone")):
                    out = runs / f"{stem}-{said.replace(' ', '-')}.safetensors"
                    found[f"{name}, {said}"] = whitened(path, unlabelled, out, tone, given)
    return found


def embedded(
    folder: Path, weights: Mapping[str, Path], given: argparse.Namespace
) -> tuple[Encoded, list[str]]:
    """All rows on one folder, and the polyp of every tracklet."""
    data, options = read_data(folder), of_frames(given.max_gap)
    encoders = []
    for name, path in weights.items():
        encoder = load_named(path, given.device, name, tracklets=options)
        assert encoder.record is not None
        guard(encoder.record.seen, data, "all")
        encoders.append(encoder)
    frozen = encoders[list(weights).index("ImageNet, frozen")]
    untrained, histogram = baselines(frozen)
    rows = [histogram, replace(untrained, name="untrained"), *encoders]
    encoded = encode(rows, folder, "all")
    return encoded, encoded.table["polyp_id"].to_list()


def table_of(folder: Path, weights: Mapping[str, Path], given: argparse.Namespace) -> str:
    """Evaluate all rows on one folder: a table in Markdown."""
    encoded, polyps = embedded(folder, weights, given)
    samples = by_polyp(samples_of(encoded.prepared), polyps)
    settings = EvaluationSettings(tasks=("retrieval", "reid"))
    minus = {}
    for reference in (HISTOGRAM, "ImageNet, frozen"):
        found, _ = evaluate_embeddings(encoded.vectors, samples, settings, reference=reference)
        minus[reference] = found.minus_reference
    queries = found.encoders[HISTOGRAM].figures["mAP"]
    lines = [
        f"{folder.name}: {found.tracklets} tracklets, {queries.n} polyps",
        "",
        f"| | {' | '.join(FIGURES)} | mAP minus histogram | mAP minus ImageNet |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in found.encoders.items():
        cells = [figure_text(figures.figures[figure]) for figure in FIGURES]
        cells += [figure_text(one[name]["mAP"]) if name in one else "" for one in minus.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line, train what is not there, and print the tables."""
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
    given = parser.parse_args()
    shown = set().union(*map(images, given.data))
    for folder in given.unlabelled:
        PolyplinkError.unless(
            not shown & images(folder), f"{folder} holds images of the evaluation", "leave it out"
        )
    weights = weights_of(given)
    text = "\n".join(table_of(folder, weights, given) for folder in given.data)
    write_text(given.out / "table.md", text)
    print(text)


if __name__ == "__main__":
    try:
        main()
    except PolyplinkError as error:
        sys.exit(str(error))
