"""Encoders: from the crops of a tracklet to one vector; weights with their record."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.encoders.build import (
        MveEncoder,
        SfeEncoder,
        TrackletEncoder,
        build_encoder,
        build_frame_encoder,
        build_projector,
        build_started,
        load_encoder,
    )
    from polyplink.encoders.config import (
        AnyEncoderConfig,
        EncoderConfig,
        FoundationConfig,
        MveConfig,
        SfeConfig,
    )
    from polyplink.encoders.device import (
        check_device,
        default_precision,
        memory_suffices,
        pick_device,
        place,
        precision,
    )
    from polyplink.encoders.embed import (
        Embedder,
        Embeddings,
        NetworkEmbedder,
        WithCrops,
        colour_histogram,
        embed,
        embed_stored,
        fragment_table,
        read_embeddings,
        write_embeddings,
    )
    from polyplink.encoders.encoder import ClipWise, Encoder, FrameWise, Tokens, to_pixels
    from polyplink.encoders.export import ExportedEncoder, export_encoder
    from polyplink.encoders.finetune import FineTune, merge_adapters, trainable
    from polyplink.encoders.sharing import from_pretrained, save_pretrained
    from polyplink.encoders.weights import (
        WEIGHTS_FILE,
        Seen,
        WeightsRecord,
        check_state,
        inherited,
        read_record,
        save_weights,
        weights_path,
        write_tensors,
    )

__all__ = [
    "WEIGHTS_FILE",
    "AnyEncoderConfig",
    "ClipWise",
    "Embedder",
    "Embeddings",
    "Encoder",
    "EncoderConfig",
    "ExportedEncoder",
    "FineTune",
    "FoundationConfig",
    "FrameWise",
    "MveConfig",
    "MveEncoder",
    "NetworkEmbedder",
    "Seen",
    "SfeConfig",
    "SfeEncoder",
    "Tokens",
    "TrackletEncoder",
    "WeightsRecord",
    "WithCrops",
    "build_encoder",
    "build_frame_encoder",
    "build_projector",
    "build_started",
    "check_device",
    "check_state",
    "colour_histogram",
    "default_precision",
    "embed",
    "embed_stored",
    "export_encoder",
    "fragment_table",
    "from_pretrained",
    "inherited",
    "load_encoder",
    "memory_suffices",
    "merge_adapters",
    "pick_device",
    "place",
    "precision",
    "read_embeddings",
    "read_record",
    "save_pretrained",
    "save_weights",
    "to_pixels",
    "trainable",
    "weights_path",
    "write_embeddings",
    "write_tensors",
]

hand_on(__name__)
