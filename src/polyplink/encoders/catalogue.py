"""All published weights by name: foundation encoders, the papers' checkpoints, a backbone.

- DINOv2 S, B, L, g (facebookresearch/dinov2) and DINOv3 S, B, L (facebookresearch/dinov3).
- V-JEPA 2 ViT-L (facebookresearch/vjepa2).
- EndoFM and EndoFM-LV: a TimeSformer with divided attention (med-air/Endo-FM, EndoFM-LV).
- EndoViT, a ViT-B/16 pre-trained as a masked autoencoder (DominikBatic/EndoViT), and SurgeNetXL,
  a CAFormer-S18 with plain ReLU (TimJaspers0801/SurgeNet), both built by timm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyplink.core.errors import find_named
from polyplink.core.lazy_torch import timm, torch
from polyplink.encoders.config import (
    REFERENCE_MEAN,
    REFERENCE_STD,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
)
from polyplink.encoders.spec import HEADS, Published, Spec, State, transformers
from polyplink.tracklets.settings import PrepareSettings

# Names in Meta's .pth files, and on the Hub.
_META = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^mask_token$", "embeddings.mask_token"),
    (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
)


def _last_hidden(model: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Pixels (n, 3, h, w) to tokens (n, p, d) of an image model of transformers."""
    tokens: torch.Tensor = model(pixels).last_hidden_state
    return tokens


def _dinov2_network(spec: Spec, config: FoundationConfig) -> torch.nn.Module:
    library = transformers()
    shape = library.Dinov2Config(
        hidden_size=spec.width,
        num_attention_heads=spec.width // 64,
        num_hidden_layers=config.depth or spec.depth,
        use_swiglu_ffn=spec.name == "dinov2-g",
        image_size=518,  # of the position table, which is resampled for other image sizes
        patch_size=spec.patch,
        layer_norm_eps=1e-6,
    )
    model: torch.nn.Module = library.Dinov2Model(shape)
    return model


def _dinov2(letter: str, name: str, width: int, depth: int = 12) -> Spec:
    return Spec(
        name=f"dinov2-{letter}",
        title=f"DINOv2 ViT-{letter}/14",
        source=f"huggingface.co/facebook/dinov2-{name}",
        file=f"model.safetensors, or dinov2_vit{letter}14_pretrain.pth",
        licence="Apache-2.0",
        marks=[
            {"pos_embed": (1, 1370, width)},  # 37 x 37 patches
            {"embeddings.position_embeddings": (1, 1370, width)},
        ],
        lacks=("register_tokens", "embeddings.register_tokens"),
        names=(
            *_META,
            (r"^pos_embed$", "embeddings.position_embeddings"),
            (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
            (r"^norm\.", "layernorm."),
            (r"^blocks\.", "encoder.layer."),
            (r"\.attn\.q\.", ".attention.attention.query."),
            (r"\.attn\.k\.", ".attention.attention.key."),
            (r"\.attn\.v\.", ".attention.attention.value."),
            (r"\.attn\.proj\.", ".attention.output.dense."),
            (r"\.mlp\.w12\.", ".mlp.weights_in."),
            (r"\.mlp\.w3\.", ".mlp.weights_out."),
        ),
        fused=True,
        network=_dinov2_network,
        hub=True,
        tokens=_last_hidden,
        width=width,
        patch=14,
        depth=depth,
        reference_pooling="mean",
    )


def _dinov3_network(spec: Spec, config: FoundationConfig) -> torch.nn.Module:
    library = transformers()
    shape = library.DINOv3ViTConfig(
        hidden_size=spec.width,
        intermediate_size=4 * spec.width,
        num_attention_heads=spec.width // 64,
        num_hidden_layers=config.depth or spec.depth,
        num_register_tokens=4,
        patch_size=spec.patch,
        layer_norm_eps=1e-5,
        rope_theta=100.0,
        key_bias=False,
        pos_embed_rescale=None,  # otherwise positions are augmented at random in training
    )
    model: torch.nn.Module = library.DINOv3ViTModel(shape)
    return model


def _dinov3(letter: str, width: int, digits: str, depth: int = 12) -> Spec:
    name = f"dinov3_vit{letter}16_pretrain_lvd1689m-{digits}.pth"
    return Spec(
        name=f"dinov3-{letter}",
        title=f"DINOv3 ViT-{letter.upper()}/16",
        source=f"huggingface.co/facebook/dinov3-vit{letter}16-pretrain-lvd1689m (gated)",
        file=f"model.safetensors, or {name}",
        licence="DINOv3 License",
        marks=[{"storage_tokens": (1, 4, width)}, {"embeddings.register_tokens": (1, 4, width)}],
        lacks=("pos_embed", "embeddings.position_embeddings"),
        # transformers computes masks and positions itself, and its keys have no bias.
        dropped=HEADS + r"|bias_mask$|^rope_embed\.periods$|\.attn\.k\.bias$",
        names=(
            *_META,
            (r"^storage_tokens$", "embeddings.register_tokens"),
            (r"^patch_embed\.proj\.", "embeddings.patch_embeddings."),
            (r"^blocks\.", "layer."),
            (r"\.attn\.([qkv])\.", r".attention.\1_proj."),
            (r"\.attn\.proj\.", ".attention.o_proj."),
            (r"\.mlp\.fc1\.", ".mlp.up_proj."),
            (r"\.mlp\.fc2\.", ".mlp.down_proj."),
        ),
        fused=True,
        network=_dinov3_network,
        hub=True,
        tokens=_last_hidden,
        width=width,
        patch=16,
        prefix=5,  # CLS and four registers
        depth=depth,
    )


_TUBELET = 2  # frames of one token of V-JEPA 2


def _vjepa2_network(spec: Spec, config: FoundationConfig) -> torch.nn.Module:
    # transformers computes positions from this number, not from the images. NTSSL's code left it at
    # 256 for other sizes, which is wrong: positions="paper" reproduces this.
    grid = spec.size if config.positions == "paper" else config.size
    library, depth = transformers(), config.depth or spec.depth
    shape = library.VJEPA2Config(crop_size=grid, num_hidden_layers=depth, pred_num_hidden_layers=1)
    model: torch.nn.Module = library.VJEPA2Model(shape)
    return model


def _vjepa2_tokens(model: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, None]:
    """Tokens of pairs of frames; the last frame of an odd number is ignored, as in the original."""
    pairs = pixels.shape[1] // _TUBELET
    hidden = model(pixels).last_hidden_state  # b p*pairs d, time first
    return hidden.view(len(hidden), pairs, -1, hidden.shape[2]), None


VJEPA2 = Spec(
    name="vjepa2-l",
    title="V-JEPA 2 ViT-L",
    source="huggingface.co/facebook/vjepa2-vitl-fpc64-256",
    file="model.safetensors, or vitl.pt of dl.fbaipublicfiles.com/vjepa2",
    licence="MIT (of the repository; see the model card)",
    marks=[
        {"patch_embed.proj.weight": (1024, 3, _TUBELET, 16, 16)},
        {"encoder.embeddings.patch_embeddings.proj.weight": (1024, 3, _TUBELET, 16, 16)},
    ],
    dropped=HEADS + r"|^pos_embed$|^predictor\.",  # an unused table; only used in pre-training
    names=(
        (r"^patch_embed\.proj\.", "encoder.embeddings.patch_embeddings.proj."),
        (r"^blocks\.", "encoder.layer."),
        (r"\.attn\.q\.", ".attention.query."),
        (r"\.attn\.k\.", ".attention.key."),
        (r"\.attn\.v\.", ".attention.value."),
        (r"\.attn\.proj\.", ".attention.proj."),
        (r"^norm\.", "encoder.layernorm."),
    ),
    fused=True,
    network=_vjepa2_network,
    part="encoder",
    hub=True,
    tokens=_vjepa2_tokens,
    width=1024,
    patch=16,
    depth=24,
    pooling=("mean",),
    reference_pooling="mean",
    size=256,
    clip=64,
    least_frames=_TUBELET,
)


def _timesformer_network(spec: Spec, config: FoundationConfig) -> torch.nn.Module:
    """The TimeSformer of transformers with the time table of the pre-training.

    The table is resampled to a clip's length by nearest neighbour, as in the original.
    """
    library = transformers()
    shape = library.TimesformerConfig(
        image_size=224,  # of the position table, which is resampled for other image sizes
        patch_size=spec.patch,
        num_frames=spec.clip,
        num_hidden_layers=config.depth or spec.depth,
        layer_norm_eps=1e-6,
        qkv_bias=True,
        attention_type="divided_space_time",
    )
    model: torch.nn.Module = library.TimesformerModel(shape)
    return model


def _timesformer_tokens(model: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of patches (b, t, p, d) and of the clip (b, d), from pixels (b, t, 3, h, w)."""
    b, t, _, height, _ = pixels.shape
    # All layers share this object and use it to reshape, not the shape of their input
    # (huggingface/transformers issue 38027).
    model.config.num_frames, model.config.image_size = t, height
    hidden = model(pixels).last_hidden_state  # b 1+p*t d, patch by patch
    return hidden[:, 1:].view(b, -1, t, hidden.shape[2]).transpose(1, 2), hidden[:, 0]


def _timesformer(name: str, title: str, frames: int, **origin: Any) -> Spec:
    return Spec(
        name=name,
        title=title,
        licence="Apache-2.0 (of the repository; none is stated for the weights)",
        **origin,
        marks=[{"time_embed": (1, frames, 768)}],
        # The temporal parts come first: the patterns of the spatial parts match them too.
        names=(
            (r"^cls_token$", "embeddings.cls_token"),
            (r"^pos_embed$", "embeddings.position_embeddings"),
            (r"^time_embed$", "embeddings.time_embeddings"),
            (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
            (r"^norm\.", "layernorm."),
            (r"^blocks\.", "encoder.layer."),
            (r"\.temporal_norm1\.", ".temporal_layernorm."),
            (r"\.temporal_attn\.qkv\.", ".temporal_attention.attention.qkv."),
            (r"\.temporal_attn\.proj\.", ".temporal_attention.output.dense."),
            (r"\.temporal_fc\.", ".temporal_dense."),
            (r"\.norm1\.", ".layernorm_before."),
            (r"\.attn\.qkv\.", ".attention.attention.qkv."),
            (r"\.attn\.proj\.", ".attention.output.dense."),
            (r"\.norm2\.", ".layernorm_after."),
            (r"\.mlp\.fc1\.", ".intermediate.dense."),
            (r"\.mlp\.fc2\.", ".output.dense."),
        ),
        network=_timesformer_network,
        tokens=_timesformer_tokens,
        width=768,
        patch=16,
        mean=REFERENCE_MEAN,
        std=REFERENCE_STD,
        clip=frames,
    )


def _endovit_network(spec: Spec, config: FoundationConfig) -> torch.nn.Module:
    depth = config.depth or spec.depth
    model: torch.nn.Module = timm().create_model(
        "vit_base_patch16_224", pretrained=False, num_classes=0, depth=depth
    )
    return model


ENDOVIT = Spec(
    name="endovit",
    title="EndoViT",
    source="huggingface.co/egeozsoy/EndoViT",
    file="pytorch_model.bin",
    licence="Apache-2.0 (of the model card; the repository has no licence file)",
    saw=("Cholec80", "CholecT45", "CholecSeg8k"),
    marks=[{"pos_embed": (1, 197, 768), "decoder_embed.weight": None}],
    dropped=HEADS + r"|^mask_token|^decoder",  # of the autoencoder
    network=_endovit_network,
    tokens=lambda model, pixels: model.forward_features(pixels),
    width=768,
    patch=16,
    only_size=True,
    mean=(0.3464, 0.2280, 0.2228),
    std=(0.2520, 0.2128, 0.2093),
)


def _surgenet_network(spec: Spec, config: FoundationConfig) -> torch.nn.Module:
    """The CAFormer-S18 of timm with ReLU in place of StarReLU, in token mixers and MLPs.

    Stock `caformer_s18` loads these weights too, except for 48 tensors of its StarReLU, and then
    gives wrong vectors: hence the strict check of all 152 tensors.
    """
    model: torch.nn.Module = timm().create_model(
        "caformer_s18",
        pretrained=False,
        num_classes=0,
        mlp_act=torch.nn.ReLU,
        act1_layer=torch.nn.ReLU,
    )
    return model


SURGENET = Spec(
    name="surgenet",
    title="SurgeNetXL",
    source="huggingface.co/TimJaspersTue/SurgeNetModels",
    file="SurgeNetXL_checkpoint_epoch0050_teacher.pth",
    licence="CC-BY-NC-SA-4.0 (not for commercial use)",
    marks=[{"downsample_layers.0.conv.weight": (64, 3, 7, 7), "stages.3.2.norm1.weight": None}],
    names=(
        (r"^downsample_layers\.0\.conv\.", "stem.conv."),
        (r"^downsample_layers\.0\.post_norm\.", "stem.norm."),
        (r"^downsample_layers\.(\d+)\.pre_norm\.", r"stages.\1.downsample.norm."),
        (r"^downsample_layers\.(\d+)\.conv\.", r"stages.\1.downsample.conv."),
        (r"^stages\.(\d+)\.(\d+)\.", r"stages.\1.blocks.\2."),
        (r"^norm\.", "head.norm."),
    ),
    network=_surgenet_network,
    tokens=lambda model, pixels: model(pixels)[:, None],  # n 1 512: mean over space, then norm
    width=512,
    patch=32,  # strides 4, 8, 16, 32
    pooling=("mean",),
    reference_pooling="mean",
    depth=18,
)
FOUNDATION: dict[str, Spec] = {
    spec.name: spec
    for spec in (
        _dinov2("s", "small", 384),
        _dinov2("b", "base", 768),
        _dinov2("l", "large", 1024, depth=24),
        _dinov2("g", "giant", 1536, depth=40),
        _dinov3("s", 384, "08c60483"),
        _dinov3("b", 768, "73cec8be"),
        _dinov3("l", 1024, "8aa4cbdd", depth=24),
        VJEPA2,
        _timesformer(
            "endofm",
            "Endo-FM",
            8,
            source="Google Drive id 1H7B91Ewm4QkZRsnUk1Bn0IQch5P8C7Xl (github.com/med-air/Endo-FM)",
            file="endo_fm.pth",
            sha256="6fc7a64a044f1eff3b7f9eb233df37a3607735848d534364f12c2aebad1aea70",
            saw=("Colonoscopic", "SUN", "SUN-SEG", "ldpolyp", "Hyper-Kvasir", "Kvasir-Capsule",
                 "CholecTriplet"),
        ),
        _timesformer(
            "endofm-lv",
            "EndoFM-LV",
            32,
            source="the SharePoint link in github.com/med-air/EndoFM-LV",
            file="endofm_lv.pth",
        ),
        ENDOVIT,
        SURGENET,
    )
}  # fmt: skip


def find_spec(name: str) -> Spec:
    """Look up a foundation encoder.

    Raises:
        PolyplinkError: If the name is unknown.
    """
    return find_named("foundation encoder", name, FOUNDATION)


@dataclass(frozen=True, kw_only=True)
class Reference(Published):
    """A checkpoint written by a paper's code.

    Attributes:
        encoder: Configuration of its encoder.
        prepare: Settings of the crops in its training.
    """

    encoder: EncoderConfig | MveConfig
    prepare: PrepareSettings = PrepareSettings()  # noqa: RUF009  frozen


_OWN: dict[str, Any] = {
    "source": "not published",
    "file": "a checkpoint of your own",
    "licence": "none stated: ask the authors",
}
_PLAIN: dict[str, Any] = {"mean": (0.0,) * 3, "std": (1.0,) * 3}  # pixels in [0, 1]
HMVE = Reference(
    name="hmve",
    title="NTSSL's tracklet encoder (HMVE)",
    source="Google Drive id 13Hif63XdPX1jsMuaW-NA-5gn_rqAZ9Oz",
    file="the Lightning checkpoint",
    licence=_OWN["licence"],
    marks=[{"mve.cls_token": None}],
    dropped=r"^projector\.",  # only used by the loss, like other heads
    names=(
        (r"^mve\.sfe\.backbone\.", "backbone."),
        (r"^mve\.encoder\.layers\.", "transformer.layers."),
        (r"^mve\.", ""),
    ),
    encoder=EncoderConfig(),
)
TA = Reference(
    name="ta",
    title="the encoder of temporally aware counting",
    **_OWN,
    marks=[{"sfe.backbone.resnet.conv1.weight": None}],
    dropped=r"^(sfe\.)?head\.",
    names=(
        (r"^sfe\.backbone\.resnet\.", "backbone."),
        (r"^transformer_encoder\.", "transformer."),
    ),
    encoder=EncoderConfig(width=128, feedforward=2048, projector_hidden=128, **_PLAIN),
)
TPC = Reference(
    name="tpc",
    title="the multi-view encoder of Intrator et al. and TPC",
    **_OWN,
    marks=[{"sfe.backbone.backbone.conv1.weight": None}],
    names=(
        (r"^sfe\.backbone\.backbone\.", "backbone."),
        (r"^sfe\.(?:backbone\.)?head\.", "frame_head."),
        (r"^transformer_encoder\.", "transformer."),
        (r"^head\.0\.", "head."),
    ),
    encoder=MveConfig(**_PLAIN),
    prepare=PrepareSettings(crop_factor=1.0),
)
REFERENCES: dict[str, Reference] = {reference.name: reference for reference in (HMVE, TA, TPC)}
BACKBONE = Published(  # timm's name for torchvision's second weights, with the same tensor names
    name="resnet50.tv2_in1k",
    title="resnet50",
    source="pytorch.org",
    file="resnet50-11ad3fa6.pth",
    licence="BSD-3-Clause (torchvision)",
    marks=[{"layer4.2.conv3.weight": (2048, 512, 1, 1), "conv1.weight": None}],
)


def recognise(state: State) -> Published | None:
    """The published weights that tensors belong to, or None if unknown."""
    known_weights = (*REFERENCES.values(), *FOUNDATION.values(), BACKBONE)
    return next((weights for weights in known_weights if weights.recognises(state)), None)
