"""Encoders of every kind: configurations, packing, sizes of the papers, backbones and pixels."""

import math
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import save_file
from torch import nn

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import ENCODERS
from polyplink.encoders.adapt import TONES
from polyplink.encoders.build import (
    MveEncoder,
    SfeEncoder,
    TrackletEncoder,
    backbone_state,
    build_encoder,
    build_frame_encoder,
    build_projector,
    check_input,
    ring_shares,
)
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.encoder import Encoder, Tokens, to_pixels
from polyplink.models.shipped import ENCODER
from polyplink.recipes.earlier import counting_encoder
from tests.encoders.small import (
    BACKBONE,
    CLIPS,
    KINDS,
    MVE,
    PROJECTED,
    SFE,
    TRANSFORMER,
    random_crops,
    random_encoder,
)

ANY: TypeAdapter[Any] = TypeAdapter(AnyEncoderConfig)


def test_every_built_in_kind_has_a_small_encoder_here() -> None:
    assert {config.kind for config in KINDS.values()} == set(ENCODERS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_configuration_round_trips_through_its_record(kind: str) -> None:
    assert ANY.validate_python(to_plain(KINDS[kind])) == KINDS[kind]
    assert ANY.validate_python(KINDS[kind]) == KINDS[kind]


def test_a_record_without_a_kind_is_a_transformer() -> None:
    plain = to_plain(EncoderConfig(width=128))
    del plain["kind"]
    assert ANY.validate_python(plain) == EncoderConfig(width=128)
    with pytest.raises(PolyplinkError, match="no encoder 'oracle'; choose one of"):
        ANY.validate_python({"kind": "oracle"})


@pytest.mark.parametrize(
    ("build_config", "message"),
    [
        (lambda: EncoderConfig(width=10), "width 10 is not a multiple of encoder.heads 8"),
        (lambda: EncoderConfig(layers=0), "encoder.layers is 0"),
        (lambda: EncoderConfig(dropout=1.0), "encoder.dropout is 1.0"),
        (lambda: EncoderConfig(std=(1, 0, 1)), "encoder.std is"),
        (lambda: SfeConfig(projector_out=0), "encoder.projector_out is 0"),
        (lambda: SfeConfig(stages=(2, 2)), r"encoder.stages is \[2, 2\]; give numbers from 0"),
        (lambda: SfeConfig(stages=(-1,)), r"encoder.stages is \[-1\]"),
        (lambda: SfeConfig(stages=(1,), rings=(0.7, 0.4)), r"encoder.rings is \[0.7, 0.4\]"),
        (lambda: SfeConfig(stages=(1,), rings=(1.5,)), r"encoder.rings is \[1.5\]"),
        (lambda: SfeConfig(rings=(0.4,)), "encoder.stages is empty"),
        (lambda: MveConfig(width=100), "not a multiple of encoder.heads"),
        (lambda: MveConfig(frame_hidden=0), "encoder.frame_hidden is 0"),
        (lambda: FoundationConfig(size=0), "encoder.size is 0"),
        (lambda: FoundationConfig(clip=-1), "encoder.clip is -1"),
    ],
)
def test_invalid_configurations_are_refused(build_config: Any, message: str) -> None:
    with pytest.raises(PolyplinkError, match=message):
        build_config()


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return random_encoder(KINDS[request.param])


@torch.no_grad()
@pytest.mark.parametrize("lengths", [[3, 8, 1, 3], [4, 4]])
def test_packed_tracklets_equal_tracklets_one_at_a_time(
    encoder: Encoder, lengths: list[int]
) -> None:
    frames = random_crops(sum(lengths))
    packed = encoder(frames, lengths)
    assert packed.tracklet.shape == (len(lengths), encoder.width)
    assert packed.frames.shape == (sum(lengths), encoder.width)
    one_by_one = [encoder(part, [len(part)]) for part in torch.split(frames, lengths)]
    assert torch.allclose(packed.tracklet, torch.cat([t.tracklet for t in one_by_one]), atol=1e-5)
    assert torch.allclose(packed.frames, torch.cat([t.frames for t in one_by_one]), atol=1e-5)


@pytest.mark.parametrize("kind", ["transformer", "sfe", "projected", "mve"])
def test_gradients_reach_every_parameter(kind: str) -> None:
    encoder = random_encoder(KINDS[kind]).train()
    projector = build_projector(encoder)
    tokens = encoder(random_crops(6), [2, 4])
    projected = projector(tokens.tracklet)
    assert projected.shape == (2, {"transformer": 128}.get(kind, 4))
    assert isinstance(projector, nn.Identity) == (kind in {"projected", "mve"})
    (projected.square().sum() + projector(tokens.frames).square().sum()).backward()
    for name, parameter in [*encoder.named_parameters(), *projector.named_parameters()]:
        assert parameter.grad is not None, name


@torch.no_grad()
def test_the_tracklet_encoder_ignores_the_order_of_frames() -> None:
    encoder, frames = random_encoder(TRANSFORMER), random_crops(9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    ordered, permuted = encoder(frames, [9]), encoder(frames[order], [9])
    assert torch.allclose(ordered.tracklet, permuted.tracklet, atol=1e-5)
    assert torch.allclose(ordered.frames[order], permuted.frames, atol=1e-5)


@torch.no_grad()
def test_mve_vectors_are_outputs_of_the_linear_head() -> None:
    encoder, frames = random_encoder(MVE), random_crops(5)
    assert isinstance(encoder, MveEncoder)
    features = encoder.encode_frames(frames)
    tokens = encoder(frames, [5])
    naive = encoder.transformer(torch.cat([encoder.cls_token, features[None]], dim=1))[0]
    assert torch.allclose(tokens.tracklet[0], encoder.head(naive[0]), atol=1e-5)
    assert torch.allclose(tokens.frames, encoder.head(naive[1:]), atol=1e-5)


def test_sfe_vectors_are_means_over_frames() -> None:
    features, sfe = torch.rand(6, 3), random_encoder(SFE)
    assert isinstance(sfe, SfeEncoder)
    naive = torch.stack([features[:1].mean(0), features[1:4].mean(0), features[4:].mean(0)])
    assert torch.allclose(sfe.aggregate(features, [1, 3, 2]).tracklet, naive)
    assert random_encoder(SFE).width > random_encoder(PROJECTED).width == 4


def test_encoders_have_the_number_of_parameters_of_the_papers() -> None:
    def millions(*modules: nn.Module) -> float:
        return round(sum(p.numel() for m in modules for p in m.parameters()) / 1e6, 2)

    with torch.device("meta"):
        ntssl = TrackletEncoder(EncoderConfig())
        inner, outer = SfeEncoder(SfeConfig(vector="projected")), SfeEncoder(SfeConfig())
        assert millions(ntssl) == 26.4
        assert millions(ntssl, build_projector(ntssl)) == 26.5
        counting = TrackletEncoder(
            replace(counting_encoder(), frame_weights=None)
        )  # the encoder of MVE, TPC and TA: 25.6 M as printed
        assert millions(counting, build_projector(counting)) == pytest.approx(25.6, abs=0.05)
        assert millions(MveEncoder(MveConfig())) == 29.76
        assert millions(inner) == millions(outer, build_projector(outer)) == 27.97
    assert (inner.width, outer.width) == (128, 2048)


def test_a_frozen_batch_norm_stays_in_evaluation_mode() -> None:
    encoder = random_encoder(TRANSFORMER)
    norms = [m for m in encoder.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms[1:]:
        norm.requires_grad_(False)
    encoder.train()
    assert norms[0].training
    assert not any(norm.training for norm in norms[1:])


@pytest.mark.parametrize(
    "name", [BACKBONE, "timm:mobilenetv3_small_050"]
)  # the second has a wider head
def test_a_backbone_gives_one_vector_per_frame(name: str) -> None:
    model, width = build_frame_encoder(name)
    assert model.eval()(torch.rand(1, 3, 32, 32)).shape == (1, width)


def test_backbone_weights_are_loaded_strictly_except_the_classifier(tmp_path: Path) -> None:
    model, width = build_frame_encoder(BACKBONE)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    path = tmp_path / "w.safetensors"
    for absent in (path, Path(ENCODER)):  # a shipped encoder has more than a backbone
        with pytest.raises(PolyplinkError, match=r"no file .* with weights of the frame encoder"):
            build_frame_encoder(BACKBONE, absent)
    save_file(state | {"fc.weight": torch.zeros(5, width)}, path)
    reloaded, _ = build_frame_encoder(BACKBONE, path)
    assert all(torch.equal(v, state[k]) for k, v in reloaded.state_dict().items())
    first = next(k for k, v in state.items() if v.ndim == 4)
    save_file(state | {first: torch.zeros(1, 1, 1, 1)}, path)
    with pytest.raises(PolyplinkError, match=r"weights of another encoder.*1 of another shape"):
        build_frame_encoder(BACKBONE, path)
    path.write_bytes(b"123")
    with pytest.raises(PolyplinkError, match="is not safetensors"):
        build_frame_encoder(BACKBONE, path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet50", "write timm:NAME"),
        ("timm:resnet5o", "did you mean timm:resnet50"),
        ("timm:zzzzzzzz", "timm knows no model 'zzzzzzzz'"),
        ("timm:hf-hub:timm/resnet18", "timm knows no model 'hf-hub:timm/resnet18'"),
        ("timm:resnet18.none", r"timm cannot build 'resnet18.none' \(Invalid pretrained tag"),
    ],
)
def test_unknown_backbones_are_refused(name: str, message: str) -> None:
    with pytest.raises(PolyplinkError, match=message):
        build_encoder(SfeConfig(frame_encoder=name))


def test_crops_of_a_size_that_an_encoder_does_not_take_are_refused() -> None:
    vit, clips = build_encoder(SfeConfig("timm:vit_tiny_patch16_224")), random_encoder(CLIPS)
    check_input(vit, 224, 8)
    check_input(clips, 32, 8)
    with pytest.raises(PolyplinkError, match=r"takes no images of 232 pixels .*prepare\.size=N"):
        check_input(vit, 232, 8)
    with pytest.raises(PolyplinkError, match="set to images of 32 pixels, and these crops have 64"):
        check_input(clips, 64, 8)


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        ("encode_frames", None, "encode_frames of encoder 'mine' returns None for 4 frames"),
        ("encode_frames", torch.ones(3, 8), r"a tensor of shape \(3, 8\) for 4 frames"),
        ("aggregate", torch.ones(2, 96), r"returns a tensor of shape \(2, 96\); return .*Tokens"),
        ("aggregate", Tokens(torch.ones(2, 7), torch.ones(4, 96)), r"\(2, 7\) as tracklet of 2"),
        ("aggregate", Tokens(torch.ones(2, 96), torch.ones(4, 7)), r"\(4, 7\) as frames of 2"),
    ],
)
def test_an_encoder_of_a_plugin_that_returns_something_else_is_refused(
    method: str, result: object, message: str
) -> None:
    encoder = build_encoder(SfeConfig("timm:test_resnet"))
    vars(encoder)["config"] = SimpleNamespace(kind="mine")
    check_input(encoder, 32, 2)
    vars(encoder)[method] = lambda *_: result
    with pytest.raises(PolyplinkError, match=message):
        check_input(encoder, 32, 2)


@pytest.mark.parametrize("shape", [(2, 5, 7, 3), (0, 5, 7, 3)])
def test_to_pixels_equals_scaling_and_normalising_in_steps(shape: tuple[int, ...]) -> None:
    frames = torch.randint(0, 256, shape, dtype=torch.uint8)
    before = frames.clone()
    mean = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    expected = (frames.permute(0, 3, 1, 2).float() / 255.0 - mean) / std
    actual = to_pixels(frames, mean, std)
    assert torch.equal(actual, expected)
    assert actual.is_contiguous(memory_format=torch.channels_last)
    transposed = frames.transpose(1, 2)  # not contiguous
    assert torch.equal(to_pixels(transposed, mean, std), expected.transpose(2, 3))
    assert torch.equal(frames, before)
    assert torch.allclose(to_pixels(frames.float() / 255, mean, std), expected)


def with_light(crop: torch.Tensor, brightness: float, contrast: float) -> torch.Tensor:
    """A crop in [0, 1] with a least brightness and contrast, one step after the other."""
    crop = crop * min(max(brightness / max(float(crop.mean()), 1e-9), 1), 4)
    spread = float(crop.std(correction=0))
    stretch = min(max(contrast / max(spread, 1e-9), 1), 4)
    return ((crop - crop.mean()) * stretch + crop.mean()).clamp(0, 1)


def test_dark_and_hazy_crops_are_corrected_and_others_stay() -> None:
    factors, offsets = torch.tensor([[1, 0.3, 0.1, 0.0, 0.3, 0.01], [0, 0, 0, 0, 0.4, 0.2]])
    crops = random_crops(6).float() / 255
    crops = crops * factors[:, None, None, None] + offsets[:, None, None, None]
    zeros, ones = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    expected = torch.stack([with_light(crop, 0.25, 0.16) for crop in crops])
    assert torch.allclose(to_pixels(crops, zeros, ones, 0.25, 0.16).permute(0, 2, 3, 1), expected)
    stored = (crops * 255).round().to(torch.uint8)
    expected = torch.stack([with_light(crop / 255, 0.25, 0.16) for crop in stored.float()])
    actual = to_pixels(stored, zeros, ones, 0.25, 0.16)
    assert torch.allclose(actual.permute(0, 2, 3, 1), expected, atol=1e-6)
    assert torch.equal(actual[0], to_pixels(stored, zeros, ones)[0])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_encoder_gives_a_dark_crop_the_vector_of_a_brighter_one(kind: AnyEncoderConfig) -> None:
    n = getattr(kind, "clip", 0) or 1
    dark = random_crops(1).repeat(n, 1, 1, 1) // 2
    bright = 2 * dark
    least = float(bright.float().mean() / 255)
    corrects, plain = random_encoder(replace(kind, least_brightness=least)), random_encoder(kind)
    expected = plain(bright, [n]).tracklet
    width = plain.width - TONES if getattr(kind, "tone", 0.0) else plain.width  # tone sees the crop
    assert torch.allclose(corrects(dark, [n]).tracklet[:, :width], expected[:, :width], atol=1e-5)
    assert not torch.allclose(plain(dark, [n]).tracklet[:, :width], expected[:, :width], atol=1e-3)


def test_stages_are_means_of_the_feature_maps_of_the_full_network() -> None:
    torch.manual_seed(0)
    full: Any = build_frame_encoder("timm:mobilenetv2_035")[0]
    partial, width = build_frame_encoder("timm:mobilenetv2_035", stages=(2, 3))
    part: Any = partial
    state = backbone_state(part, {f"backbone.{k}": v for k, v in full.state_dict().items()})
    part.load_state_dict(state)
    assert len(part.network.blocks) == 5 < len(full.blocks)
    frames = torch.rand(2, 3, 64, 64)
    maps: dict[int, torch.Tensor] = {}
    for k in (2, 4):
        full.blocks[k].register_forward_hook(
            lambda module, inputs, output, k=k: maps.update({k: output})
        )
    full.eval()(frames)
    means = [torch.nn.functional.normalize(maps[k].mean(dim=(2, 3)), dim=1) for k in (2, 4)]
    torch.testing.assert_close(part.eval()(frames), torch.cat(means, 1))
    assert width == sum(mean.shape[1] for mean in means)
    turned, _ = build_frame_encoder("timm:mobilenetv2_035", stages=(3, 2))
    turned.load_state_dict(state)
    assert torch.equal(turned.eval()(frames), part(frames))
    with pytest.raises(PolyplinkError, match="does not have every stage of 9"):
        build_frame_encoder("timm:mobilenetv2_035", stages=(9,))


def test_rings_have_the_means_of_their_pixels_and_are_the_same_for_turned_crops() -> None:
    torch.manual_seed(0)
    rings = (0.4, 0.75)
    model, width = build_frame_encoder("timm:mobilenetv2_035", stages=(2,), rings=rings)
    stage: Any = model
    frames = torch.rand(2, 3, 64, 64)
    (feature_map,) = stage.eval().network(frames)  # 2 c 8 8
    expected = []
    for low, high in pairwise((0.0, *rings, 2.0)):
        pixels = [
            feature_map[:, :, i, j]
            for i, j in product(range(8), repeat=2)
            if low <= math.hypot((i + 0.5) / 4 - 1, (j + 0.5) / 4 - 1) < high
        ]
        expected.append(torch.nn.functional.normalize(torch.stack(pixels).mean(0), dim=1))
    torch.testing.assert_close(stage(frames), torch.cat(expected, 1))
    assert width == 3 * feature_map.shape[1]
    shares = ring_shares(14, 14, rings)
    torch.testing.assert_close(shares.rot90(1, (1, 2)), shares)
    torch.testing.assert_close(shares.sum((1, 2)), torch.ones(3))
    torch.testing.assert_close(ring_shares(3, 5, ()), torch.full((1, 3, 5), 1 / 15))


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("timm:test_convnext", 64),  # "stages.0" is "stages_0" in its extractor
        ("timm:test_vit", 160),  # "blocks.0" is "model.blocks.0"
        ("timm:test_mambaout", 64),  # maps (n, h, w, channels)
    ],
)
def test_stages_of_every_family_take_the_weights_of_the_full_network(name: str, size: int) -> None:
    part, width = build_frame_encoder(name, stages=(0, 1))
    part.load_state_dict(backbone_state(part, build_frame_encoder(name)[0].state_dict()))
    assert part.eval()(torch.rand(2, 3, size, size)).shape == (2, width)
