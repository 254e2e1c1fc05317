"""Does an encoder distinguish polyps on dyed mucosa? Run by `make study-dye`.

    make study-dye DATA="STILLS --weights WEIGHTS --empty FOLDER"

Stills in which the polyp and its surroundings are as green as red, or greener, are divided by group
into two halves. For each half, the tint of whitened WEIGHTS (`encoders.adapt.fit_tint`) is fitted
to views of all stills outside it, and procedures are made of its stills in motion, with images of
FOLDER between the visits. They are counted without and with the tint.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import roc_auc_score

import polyplink
from polyplink.data.files.trees import image_files
from polyplink.data.tables import read_data
from polyplink.encoders.adapt import WhitenedEncoder, fit_tint, tints_of
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import save_weights, weights_path
from polyplink.stills.annotated_stills import Still, read_stills
from polyplink.stills.procedures import StillsConfig, write_procedures
from polyplink.stills.still_views import draw_views

DYED = 0.95  # green over red of a still's crop, at least
HALVES = 2
PROCEDURES = StillsConfig(24, 3, 4, fewest_visits=20 / 9, most_visits=20 / 9)
VIEWS = 4  # of each still, beside itself


def is_dyed(crop: np.ndarray) -> bool:
    """Whether a crop (h, w, 3) is at least `DYED` times as green as red."""
    red, green, _ = crop.reshape(-1, 3).mean(axis=0) + 1
    return bool(green >= DYED * red)


def cosines(encoder: WhitenedEncoder, polyps: Sequence[torch.Tensor]) -> dict[str, float]:
    """Cosines of the vectors of two views, of one still and of two, and how well they separate.

    Args:
        encoder: The encoder.
        polyps: Views (v, h, w, 3) of each still.
    """
    with torch.no_grad():
        vectors = [encoder(views, [1] * len(views)).tracklet.numpy() for views in polyps]
    of_one_still = np.concatenate([(v @ v.T)[np.triu_indices(len(v), 1)] for v in vectors])
    of_two_stills = np.concatenate(
        [(a @ b.T).ravel() for i, a in enumerate(vectors) for b in vectors[:i]]
    )
    auroc = roc_auc_score(
        [True] * len(of_one_still) + [False] * len(of_two_stills),
        np.concatenate([of_one_still, of_two_stills]),
    )
    return {
        "one still": of_one_still.mean(),
        "two stills": of_two_stills.mean(),
        "AUROC": float(auroc),
    }


def counted(
    weights: Path, procedures: Path, out: Path
) -> tuple[dict[str, float], npt.NDArray[np.float64]]:
    """Count the procedures of a folder.

    Returns:
        The mean error, and the numbers of polyps mixed and split; and the errors (p,).
    """
    result = polyplink.count(
        weights, procedures, out=out, stride=1, min_length=4, max_gap=9, replace=True
    )
    data = result.value.data
    true = data.polyps.group_by("procedure_id").len("true")
    counts = result.value.counts.join(true, on="procedure_id").sort("procedure_id")
    errors = (counts["polyps"] - counts["true"]).abs().to_numpy().astype(np.float64)
    boxes = data.detections.hstack(result.value.tracks).drop_nulls("polyp")
    pairs = boxes.select("procedure_id", "polyp", "polyp_id").unique()
    of_counted = pairs.group_by("procedure_id", "polyp").len()["len"]
    of_true = pairs.group_by("procedure_id", "polyp_id").len()["len"]
    figures = {
        "count error": float(errors.mean()),
        "of several polyps": float((of_counted > 1).sum()),
        "counted": float(len(of_counted)),
        "split": float((of_true > 1).sum()),
        "polyps": float(len(of_true)),
    }
    return figures, errors


def main() -> None:
    """Fit the tint to each half, count the other, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stills", type=Path, help="data folder of annotated stills")
    parser.add_argument("--weights", type=Path, required=True, help="a whitened encoder")
    parser.add_argument("--empty", type=Path, required=True, help="images without a polyp")
    parser.add_argument("--out", type=Path, default=Path("dyed"), help="folder for procedures")
    arguments = parser.parse_args()
    loaded = load_encoder(weights_path(arguments.weights), torch.device("cpu"))
    encoder, settings = loaded.encoder, loaded.record.prepare
    assert isinstance(encoder, WhitenedEncoder)
    data = read_data(arguments.stills)
    stills = read_stills(arguments.stills, data, data.part(None))

    # Features and tints of the views of every still; the views themselves of dyed ones.
    features, tints = [], []
    dyed: dict[int, torch.Tensor] = {}
    for k, crops in enumerate(draw_views(stills, VIEWS, settings.size, settings.crop_factor)):
        views = torch.from_numpy(crops)
        with torch.no_grad():
            features.append(encoder.unit_features(views) - encoder.features_mean)
        tints.append(tints_of(views))
        if len(stills[k].boxes) == 1 and is_dyed(crops[0]):
            dyed[k] = views
    groups = sorted({stills[k].group for k in dyed})
    half = {
        group: k % HALVES for k, group in enumerate(np.random.default_rng(1).permutation(groups))
    }
    print(f"{len(dyed)} dyed stills of {len(groups)} groups, of {len(stills)} stills")
    rows: dict[str, list[dict[str, float]]] = {"without tint": [], "with tint": []}
    errors: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in rows}
    for k in range(HALVES):
        tested = [i for i in dyed if half[stills[i].group] == k]
        others = [i for i, still in enumerate(stills) if half.get(still.group) != k]
        first = list({stills[i].group: dyed[i] for i in tested}.values())
        folder = arguments.out / f"half{k}"
        chosen: list[Still] = [stills[i] for i in tested]
        config = replace(PROCEDURES, seed=k)
        write_procedures(folder, chosen, image_files(arguments.empty), config, name="dyed")
        fitted = fit_tint(
            torch.cat([features[i] for i in others]), torch.cat([tints[i] for i in others])
        )
        for name, slopes in zip(rows, (torch.zeros_like(fitted), fitted), strict=True):
            encoder.tint_slopes.copy_(slopes)
            weights = arguments.out / f"{name}-{k}.safetensors"
            save_weights(weights, encoder, loaded.record)
            figures, error = counted(weights, folder, arguments.out / f"{name}-{k}")
            rows[name].append(cosines(encoder, first) | figures)
            errors[name].append(error)
    averaged = ("one still", "two stills", "AUROC", "count error")
    columns = [*averaged, "of several polyps", "counted", "split", "polyps"]
    print("| | " + " | ".join(columns) + " |")
    print("|" + "---|" * (1 + len(columns)))
    for name, halves in rows.items():
        values = [
            f"{np.mean([part[column] for part in halves]):.2f}"
            if column in averaged
            else f"{sum(part[column] for part in halves):.0f}"
            for column in columns
        ]
        print(f"| {name} | " + " | ".join(values) + " |", flush=True)
    without, tinted = (np.concatenate(values) for values in errors.values())
    rng = np.random.default_rng(0)
    draws = rng.choice(without - tinted, (10_000, len(without))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    print(f"count error less by {(without - tinted).mean():.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
