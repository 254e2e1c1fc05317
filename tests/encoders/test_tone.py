"""Tone, tint and whitening against plain computations, and how weights store them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch.nn.functional import normalize

from polyplink import adapt_weights, train
from polyplink.cli.weights_adapt import _check_encoder
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.adapt import (
    CROPS,
    SHRINKAGE,
    TONE_SHRINKAGE,
    TONES,
    ToneEncoder,
    WhitenedEncoder,
    adapt_statistics,
    batch_norms,
    fit_whitening,
    fit_within,
    tints_of,
    tone_statistics,
)
from polyplink.encoders.config import AnyEncoderConfig, EncoderConfig, SfeConfig
from polyplink.encoders.encoder import Encoder, FrameWise
from polyplink.encoders.load import build_started, load_encoder
from polyplink.encoders.weights import (
    RECORD,
    Seen,
    WeightsRecord,
    read_record,
    record_text,
    save_weights,
    stored_path,
    write_tensors,
)
from polyplink.tracklets.prepare import prepare, typical_crops
from polyplink.tracklets.settings import PrepareSettings
from tests.conftest import recipe
from tests.encoders.small import CLIPS, FRAMES, SFE, TRANSFORMER, random_encoder
from tests.samples import write_procedures


def crops_of(n: int, seed: int = 0, size: int = 48) -> np.ndarray:
    """Random crops (n, size, size, 3) that differ in brightness, cast and colour of the middle."""
    rng = np.random.default_rng(seed)
    cast = rng.uniform(60, 190, (n, 1, 1, 3)) + rng.normal(0, 12, (n, size, size, 3))
    cast[:, size // 4 : -size // 4, size // 4 : -size // 4] += rng.normal(0, 20, (n, 1, 1, 3))
    crops: np.ndarray = cast.clip(0, 255).astype(np.uint8)
    return crops


def test_tone_statistics_are_nearest_quantiles_of_log_colours() -> None:
    crops = crops_of(3)
    logs = np.log1p(crops.astype(np.float64))
    red, green, blue = np.moveaxis(logs, 3, 0)
    expected = []
    for cut in (slice(None), slice(8, 40)):
        for share in (0.1, 0.3, 0.5, 0.7, 0.9):
            for channel in (red - green, green - blue, red + green + blue):
                values = np.sort(channel[:, cut, cut].reshape(3, -1), axis=1)
                expected.append(values[:, int(share * (values.shape[1] - 1) + 0.5)])
    actual = tone_statistics(torch.from_numpy(crops))
    assert np.allclose(actual, np.stack(expected, axis=1), atol=1e-5)
    large = torch.from_numpy(crops_of(1, size=200))
    assert torch.equal(tone_statistics(large), tone_statistics(large[:, ::4, ::4]))


def test_whitened_statistics_have_equal_variances_up_to_shrinkage() -> None:
    statistics = tone_statistics(torch.from_numpy(crops_of(200)))
    mean, whitening = fit_whitening(statistics, TONE_SHRINKAGE)
    covariance = torch.cov(((statistics - mean).double() @ whitening.double()).T)
    assert torch.allclose(covariance, covariance.diag().diag(), atol=1e-3)
    variances = torch.linalg.eigvalsh(torch.corrcoef(statistics.double().T))
    shrunk = variances / (variances + TONE_SHRINKAGE * variances.max())
    assert torch.allclose(covariance.diag().sort().values, shrunk.sort().values, atol=0.02)


def test_crops_that_do_not_vary_are_refused_not_fitted_to_nan() -> None:
    vector = torch.rand(1, 5)
    for crops in (vector, vector.repeat(3, 1)):
        with pytest.raises(PolyplinkError, match="too few to fit whitening or tone to"):
            fit_whitening(crops, SHRINKAGE)
    with pytest.raises(PolyplinkError, match="no polyp has two views"):
        fit_within([torch.rand(1, 5), torch.rand(1, 5)], SHRINKAGE)


def test_a_tone_vector_joins_the_base_vector_and_the_mean_tone_of_frames() -> None:
    torch.manual_seed(0)
    base = build_started(TRANSFORMER).eval()
    crops = torch.from_numpy(crops_of(7))
    encoder = ToneEncoder(base, 2.0).fit([crops[:4], crops[4:]]).eval()
    with torch.no_grad():
        actual = encoder(crops, [3, 4]).tracklet
        base_vectors = base(crops, [3, 4]).tracklet
    tones = (tone_statistics(crops) - encoder.tone_mean) @ encoder.tone_map
    tones /= tones.norm(dim=1, keepdim=True)
    means = torch.stack([tones[:3].mean(dim=0), tones[3:].mean(dim=0)])
    cosine = torch.nn.functional.cosine_similarity
    expected = (cosine(base_vectors[:1], base_vectors[1:]) + 4 * cosine(means[:1], means[1:])) / 5
    assert actual.shape == (2, base.width + TONES)
    assert torch.allclose(cosine(actual[:1], actual[1:]), expected, atol=1e-5)


@torch.no_grad()
def test_a_whitened_vector_is_the_mean_of_whitened_frame_features() -> None:
    torch.manual_seed(0)
    base = build_started(SFE).eval()
    assert isinstance(base, FrameWise)
    crops = torch.from_numpy(crops_of(60))
    encoder = WhitenedEncoder(base).fit([crops[:33], crops[33:]]).eval()
    units = base.encode_frames(crops).double().numpy()
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    spread = units.std(axis=0) + 1e-6
    x = (units - units.mean(axis=0)) / spread
    variances, axes = np.linalg.eigh(np.cov(x.T))
    white = x @ axes / np.sqrt(variances.clip(min=0) + SHRINKAGE * variances.max())
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    expected = np.stack([white[:20].mean(axis=0), white[20:].mean(axis=0)])
    tokens = encoder(crops, [20, 40])
    # Axes are unique only up to sign: compare products, which do not depend on it.
    for pooled in (
        tokens.tracklet,
        encoder.pool_packed(encoder.encode_frames(crops), torch.tensor([20, 40])),
    ):
        assert np.allclose(pooled @ pooled.T, expected @ expected.T, atol=1e-4)
    assert np.allclose(tokens.frames @ tokens.frames.T, white @ white.T, atol=1e-3)


def test_fit_within_inverts_the_shrunk_scatter_within_polyps() -> None:
    rng = np.random.default_rng(0)
    polyps = [
        rng.normal(size=(views, 5)) * [9, 3, 1, 1, 0.1] + 20 * k for k, views in ((0, 40), (1, 7))
    ]
    mean, within = fit_within(map(torch.from_numpy, polyps), 0.02)
    scatter = sum((values - values.mean(0)).T @ (values - values.mean(0)) for values in polyps) / 47
    expected = np.linalg.inv(scatter + 0.02 * np.trace(scatter) / 5 * np.eye(5))
    assert np.allclose(within @ within.T, expected, rtol=1e-4, atol=1e-5)
    assert np.allclose(mean, np.concatenate(polyps).mean(0), atol=1e-4)


def test_what_features_of_tinted_views_share_is_subtracted_and_others_stay(tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = build_started(SFE).eval()
    white_light = crops_of(120).reshape(40, 3, *crops_of(1).shape[1:])
    white_light[..., 1:] //= 2  # green below 0.7 of red
    white_light[..., 0] = 150 + white_light[..., 0] // 4
    dyed = white_light[30:].copy()
    dyed[..., 0] //= 6
    polyps = [torch.from_numpy(views) for views in (*white_light[:30], *dyed)]
    encoder = WhitenedEncoder(base).fit_within(polyps).eval()
    assert not tints_of(torch.cat(polyps[:30])).any()
    assert (tints_of(torch.cat(polyps[30:])) > 0).sum() > 50

    def vectors(encoder: WhitenedEncoder, views: Sequence[torch.Tensor]) -> torch.Tensor:
        return normalize(encoder(torch.cat(list(views)), [3] * len(views)).tracklet, dim=1)

    # Without the slopes, as in weights of earlier versions, the dyed resemble each other more.
    record = WeightsRecord(encoder.config, PrepareSettings(), {}, Seen(), {})
    save_weights(tmp_path / "new.safetensors", encoder, record)
    state = {name: value for name, value in encoder.state_dict().items() if "tint" not in name}
    write_tensors(tmp_path / "old.safetensors", state, {RECORD: record_text(record)})
    before, after = (
        load_encoder(tmp_path / f"{name}.safetensors", torch.device("cpu")).encoder
        for name in ("old", "new")
    )
    assert isinstance(before, WhitenedEncoder)
    assert isinstance(after, WhitenedEncoder)
    assert torch.equal(vectors(before, polyps[:30]), vectors(after, polyps[:30]))
    pairs = torch.triu_indices(10, 10, 1)
    cosines = [
        (vectors(part, polyps[30:]) @ vectors(part, polyps[30:]).T)[*pairs].mean()
        for part in (before, after)
    ]
    assert cosines[1] < cosines[0] - 0.1


def test_whitening_and_tone_are_refused_before_the_training() -> None:
    with pytest.raises(PolyplinkError, match="--whiten"):
        build_started(replace(TRANSFORMER, whiten=True))
    with pytest.raises(PolyplinkError, match="--tone"):
        build_started(replace(CLIPS, tone=1.4))


@pytest.mark.usefixtures("empty_store")
@pytest.mark.parametrize(
    ("encoder_config", "sets"),
    [
        pytest.param(TRANSFORMER, ("encoder.tone=1.4",), marks=pytest.mark.slow),
        (SFE, ("encoder.tone=1.4", "encoder.whiten=true")),
    ],
)
def test_training_fits_tone_and_whitening_as_adapt_does_and_restarts_without_them(
    tmp_path: Path, encoder_config: EncoderConfig | SfeConfig, sets: tuple[str, ...]
) -> None:
    data, config = (
        write_procedures(tmp_path, procedures=3, views=2),
        replace(recipe(), encoder=encoder_config),
    )
    run, sets, whiten = tmp_path / "run", (*sets, "optim.epochs=1"), len(sets) > 1
    train(config, data, out=run, sets=sets, device="cpu", workers=1)
    adapt_weights(run, data, name="again", part="train", tone=1.4, whiten=whiten, device="cpu")
    weights = tmp_path / "run" / "weights.safetensors"
    trained, adapted = load_file(weights), load_file(stored_path("again"))
    assert trained.keys() == adapted.keys()
    assert all(np.array_equal(trained[name], adapted[name]) for name in trained)
    assert read_record(stored_path("again")).operating is None  # it does not fit other vectors
    recorded = read_record(weights).encoder
    assert (recorded.tone, recorded.whiten) == (1.4, whiten)
    loaded: Encoder = load_encoder(tmp_path / "run", torch.device("cpu")).encoder
    started = build_started(loaded.config, tmp_path / "run")
    for part in (ToneEncoder, WhitenedEncoder)[: 1 + whiten]:
        assert isinstance(loaded, part)
        loaded = loaded.encoder
    assert type(started) is type(loaded)
    assert all(
        torch.equal(value, started.state_dict()[name])
        for name, value in loaded.state_dict().items()
    )


@dataclass(frozen=True)
class _PlainConfig:
    """A plugin's configuration with the fields that every encoder needs, and no others."""

    kind: str = "plain"


def test_tone_that_a_plugin_cannot_record_is_refused() -> None:
    encoder = random_encoder(SFE)
    encoder.config = _PlainConfig()
    with pytest.raises(PolyplinkError, match="encoder 'plain' has no fields tone and whiten"):
        _check_encoder(Path("w"), encoder, 1.0, False)


@pytest.mark.usefixtures("empty_store")
def test_batch_norm_adapts_to_the_variance_between_procedures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The colours of the procedures differ, and a batch is smaller than a procedure."""
    data, weights = write_procedures(tmp_path, procedures=4, views=2), tmp_path / "w.safetensors"
    settings = PrepareSettings(size=32)
    exact = random_encoder(SFE)
    assert isinstance(exact, FrameWise)
    save_weights(weights, exact, WeightsRecord(SFE, settings, {}, Seen(), {}))
    pixels = typical_crops(prepare(data, settings), CROPS)
    adapt_statistics(exact, [torch.from_numpy(pixels)])
    monkeypatch.setattr("polyplink.encoders.adapt.BATCH", len(pixels) // 8)
    adapt_weights(weights, data, name="adapted", device="cpu")
    adapted = load_encoder(stored_path("adapted"), torch.device("cpu")).encoder
    first, expected = (batch_norms(encoder)[0].running_var for encoder in (adapted, exact))
    assert first is not None
    assert expected is not None
    assert (first / expected).mean() > 0.8


@pytest.mark.usefixtures("empty_store")
@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (FRAMES, {}, "has no BatchNorm layers of single frames to adapt"),
        (CLIPS, {}, "has no BatchNorm layers of single frames to adapt"),
        (CLIPS, {"tone": 1.0}, "the encoder reads clips"),
        (TRANSFORMER, {"whiten": True}, "whitening is for encoders that average"),
    ],
    ids=["no BatchNorm", "clips", "tone of clips", "whitened transformer"],
)
def test_an_encoder_that_cannot_be_adapted_is_refused_before_crops_are_cut(
    config: AnyEncoderConfig, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    data, weights = write_procedures(tmp_path, procedures=1), tmp_path / "w.safetensors"
    record = WeightsRecord(config, PrepareSettings(size=32), {}, Seen(), {})
    save_weights(weights, random_encoder(config), record)
    with pytest.raises(PolyplinkError, match=message):
        adapt_weights(weights, data, name="adapted", device="cpu", **options)
    assert not (data / "prepared").exists()
