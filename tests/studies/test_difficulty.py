"""Is the simulator neither too easy nor unfair? Run by `make study`, not by CI: minutes.

The anchors: published frozen foundation models reach mAP 0.28 to 0.50 on REAL-Colon's evaluation
procedures (NTSSL, table 1), so that what has learned nothing of polyps must stay below; bags are
nearly pure at the start of the curriculum and fall through it (NTSSL, figure 2).
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from polyplink import evaluate_weights, train
from polyplink.encoders.build import build_frame_encoder
from polyplink.encoders.embed import Embedder, colour_histogram, embed
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.truth import samples_of
from polyplink.learn.bags import purity
from polyplink.learn.temporal_bags import cosine_tau, sampled_bags
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl_demo
from polyplink.tracklets.prepare import Prepared, prepare
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.presets import preset

SETTINGS = PrepareSettings(crop_factor=2.0, size=96)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "small"
    simulate(folder, preset("small"), 0, workers=2)
    return folder


def mean_features(seed: int = 0) -> Embedder:
    """An untrained ResNet-50; its features averaged over a tracklet's frames."""
    torch.manual_seed(seed)
    network = build_frame_encoder("timm:resnet50")[0].eval()

    @torch.inference_mode()
    def vectors(crops: np.ndarray, lengths: list[int]) -> np.ndarray:
        found = []
        for part in np.split(np.asarray(crops), np.cumsum(lengths)[:-1]):
            pixels = torch.tensor(part).permute(0, 3, 1, 2).float() / 255  # s 3 h w
            found.append(network((pixels - 0.45) / 0.225).mean(0).numpy())
        return np.stack(found)

    return vectors  # type: ignore[return-value]


def mean_ap(prepared: Prepared, embedder: Embedder) -> float:
    embeddings = embed(prepared, embedder, "study")
    value = retrieve(embeddings.vectors, samples_of(prepared)).mean_ap
    assert value is not None
    return value


@pytest.mark.study
def test_what_has_learned_nothing_stays_below_the_published_frozen_models(small: Path) -> None:
    part = prepare(small, SETTINGS).part("eval")
    histogram, network = mean_ap(part, colour_histogram), mean_ap(part, mean_features())
    print(f"mAP on {part.tracklets.height} tracklets: histogram {histogram:.3f}, ", end="")
    print(f"untrained ResNet-50 {network:.3f}")
    assert histogram < 0.45
    assert network < 0.5


@pytest.mark.study
def test_bags_begin_pure_and_do_not_stay_so(small: Path) -> None:
    # Looks are 15 times fewer than in life: every second frame and fragments of 4 make up for it.
    settings = PrepareSettings(stride=2)
    fragments = prepare(small, settings, with_crops=False).part("train").fragments(4)
    polyps = fragments["polyp_id"].rank("dense").to_numpy().astype(np.int64)
    procedures = fragments["procedure_id"].to_numpy()
    positions = fragments["position"].to_numpy()
    rng = np.random.default_rng(0)
    curve = [
        purity(sampled_bags(procedures, positions, 4, cosine_tau(c, 0.3, 12.0), rng), polyps)
        for c in np.linspace(0, 0.98, 50)
    ]
    print("purity over 50 epochs:", " ".join(f"{value:.2f}" for value in curve[::7]))
    assert np.mean(curve[:3]) > 0.85
    assert np.mean(curve[-3:]) < np.mean(curve[:3]) - 0.2


@pytest.mark.study
def test_ntssl_learns_what_the_others_cannot_see(small: Path, tmp_path: Path) -> None:
    changes = ("prepare.crop_factor=2.0", "prepare.size=64", "optim.epochs=8")
    recipe = override(ntssl_demo(), changes)
    train(recipe, small, out=tmp_path / "run", device="cpu", workers=2)
    done = evaluate_weights(tmp_path / "run", small, out=tmp_path / "evaluation", grid="demo")
    auroc = {
        name: found.figures["AUROC"].value for name, found in done.value.evaluation.encoders.items()
    }
    print("AUROC:", auroc)
    trained = auroc.pop("ntssl-demo")
    assert trained is not None
    for name, value in auroc.items():
        assert value is not None
        assert trained > value + 0.1, name
