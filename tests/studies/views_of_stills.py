"""How should views of stills adapt an untrained encoder? Run by `make study-views`.

    make study-views DATA="STILLS --weights WEIGHTS --real FOLDER ..."

The features of WEIGHTS are mapped in three ways: whitened over crops, whitened within polyps
(`weights adapt --whiten --in-motion`), and by a linear map that is trained with InfoNCE on pairs of
views. Each is cross-validated over the groups of STILLS in five folds. Each is also fitted on all
stills and measured on tracklets of real FOLDERs with polyp ids.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

from polyplink.data.tables import read_data
from polyplink.encoders.adapt import (
    SHRINKAGE,
    WITHIN_SHRINKAGE,
    WhitenedEncoder,
    fit_whitening,
    fit_within,
    unwrap_encoder,
)
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encode import embed
from polyplink.encoders.load import load_encoder
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.truth import samples_of
from polyplink.stills.annotated_stills import read_stills
from polyplink.stills.still_views import draw_views
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import with_options
from tests.studies.real_frames import frame_options

Polyps = list[torch.Tensor]  # (v, t) features of the views of each
Fitted = tuple[torch.Tensor, torch.Tensor]  # mean (t,), map (t, t)
FOLDS, EPOCHS, TEMPERATURE, RATE, PAIRS = 5, 20, 0.1, 1e-3, 256


def contrastive(polyps: Polyps) -> Fitted:
    """A linear map trained with InfoNCE, initialised by the whitening over crops."""
    mean, start = fit_whitening(torch.cat(polyps), SHRINKAGE)
    features_map = (0.1 * start / start.std()).requires_grad_()
    optimiser, rng = torch.optim.Adam([features_map], lr=RATE), np.random.default_rng(0)
    centred = [views - mean for views in polyps if len(views) > 1]
    for _ in range(EPOCHS):
        order = rng.permutation(len(centred))
        for first in range(0, max(1, len(order) - PAIRS + 1), PAIRS):
            rows = [centred[k] for k in order[first : first + PAIRS]]
            pairs = torch.stack([views[rng.choice(len(views), 2, False)] for views in rows])
            first_views, others = normalize(pairs @ features_map, dim=2).unbind(1)  # n t
            logits, truth = first_views @ others.T / TEMPERATURE, torch.arange(len(rows))
            loss = cross_entropy(logits, truth) + cross_entropy(logits.T, truth)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return mean, features_map.detach()


METHODS: dict[str, Callable[[Polyps], Fitted]] = {
    "whitened over crops": lambda polyps: fit_whitening(torch.cat(polyps), SHRINKAGE),
    "whitened within polyps": lambda polyps: fit_within(polyps, WITHIN_SHRINKAGE),
    "linear map, InfoNCE": contrastive,
}


def mean_ap(polyps: Polyps, fitted: Fitted) -> float:
    """Mean average precision of retrieving the other views of a polyp among all views."""
    mean, features_map = fitted
    labels = [str(k) for k, views in enumerate(polyps) for _ in views]
    names = [f"view {k}" for k in range(len(labels))]
    samples = Samples.of(names, labels, labels, np.zeros(len(labels)))
    vectors = (torch.cat(polyps) - mean) @ features_map
    return retrieve(vectors.numpy(), samples).mean_ap or 0.0


def main() -> None:
    """Fit and measure the maps, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stills", type=Path, help="data folder of annotated stills")
    parser.add_argument("--weights", type=Path, required=True, help="an encoder of single frames")
    parser.add_argument("--part", help="of the stills")
    parser.add_argument("--real", type=Path, nargs="*", default=[], help="folders with polyp ids")
    parser.add_argument("--views", type=int, default=4, help="of each still, beside itself")
    arguments = parser.parse_args()
    loaded = load_encoder(arguments.weights, torch.device("cpu"))
    whitened_encoder = WhitenedEncoder(unwrap_encoder(loaded.encoder)).eval()
    settings = loaded.record.prepare
    data = read_data(arguments.stills)
    stills = read_stills(arguments.stills, data, data.part(arguments.part))
    polyps: Polyps = []
    with torch.no_grad():
        for crops in draw_views(stills, arguments.views, settings.size, settings.crop_factor):
            polyps.append(whitened_encoder.unit_features(torch.from_numpy(crops)))
            if len(polyps) % 100 == 0:
                print(f"{len(polyps)} of {len(stills)} stills", flush=True)
    groups = sorted({still.group for still in stills})
    fold_of = dict(
        zip(groups, np.random.default_rng(1).integers(0, FOLDS, len(groups)), strict=True)
    )
    folds = np.array([fold_of[still.group] for still in stills])
    options = with_options(settings, frame_options(max_gap=40))
    real = [prepare(folder, options, procedures="all", workers=2) for folder in arguments.real]
    print("| mAP | stills held out | " + " | ".join(path.name for path in arguments.real) + " |")
    print("|" + "---|" * (2 + len(real)))
    for name, fit in METHODS.items():
        held_out_values = [
            mean_ap(
                [polyps[k] for k in np.flatnonzero(folds == fold)],
                fit([polyps[k] for k in np.flatnonzero(folds != fold)]),
            )
            for fold in range(FOLDS)
        ]
        values = [float(np.mean(held_out_values))]
        for buffer, value in zip(
            (whitened_encoder.features_mean, whitened_encoder.features_map),
            fit(polyps),
            strict=True,
        ):
            buffer.copy_(value)
        for prepared in real:
            vectors = embed(prepared, NetworkEmbedder(whitened_encoder), name).vectors
            values.append(retrieve(vectors, samples_of(prepared)).mean_ap or 0.0)
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |", flush=True)


if __name__ == "__main__":
    main()
