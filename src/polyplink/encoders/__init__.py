"""Encoders: from the crops of a tracklet to one vector; weights with their record."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.encoders.build import (
        MveEncoder as MveEncoder,
        SfeEncoder as SfeEncoder,
        TrackletEncoder as TrackletEncoder,
        build_encoder as build_encoder,
        build_frame_encoder as build_frame_encoder,
        build_projector as build_projector,
        build_started as build_started,
        load_encoder as load_encoder,
    )
    from polyplink.encoders.config import (
        AnyEncoderConfig as AnyEncoderConfig,
        EncoderConfig as EncoderConfig,
        FoundationConfig as FoundationConfig,
        MveConfig as MveConfig,
        SfeConfig as SfeConfig,
    )
    from polyplink.encoders.device import (
        check_device as check_device,
        default_precision as default_precision,
        memory_suffices as memory_suffices,
        pick_device as pick_device,
        place as place,
        precision as precision,
        products as products,
    )
    from polyplink.encoders.embed import (
        Embedder as Embedder,
        NetworkEmbedder as NetworkEmbedder,
        WithCrops as WithCrops,
        colour_histogram as colour_histogram,
        embed as embed,
        embed_stored as embed_stored,
        fragment_table as fragment_table,
    )
    from polyplink.encoders.encoder import (
        ClipWise as ClipWise,
        Encoder as Encoder,
        FrameWise as FrameWise,
        Tokens as Tokens,
        to_pixels as to_pixels,
    )
    from polyplink.encoders.export import (
        ExportedEncoder as ExportedEncoder,
        export_encoder as export_encoder,
    )
    from polyplink.encoders.finetune import (
        FineTune as FineTune,
        merge_adapters as merge_adapters,
        trainable as trainable,
    )
    from polyplink.encoders.pretrained import (
        from_pretrained as from_pretrained,
        save_pretrained as save_pretrained,
    )
    from polyplink.encoders.vectors import (
        Embeddings as Embeddings,
        read_embeddings as read_embeddings,
        write_embeddings as write_embeddings,
    )
    from polyplink.encoders.weights import (
        WEIGHTS_FILE as WEIGHTS_FILE,
        Seen as Seen,
        WeightsRecord as WeightsRecord,
        check_state as check_state,
        inherited as inherited,
        read_record as read_record,
        save_weights as save_weights,
        weights_path as weights_path,
        write_tensors as write_tensors,
    )

hand_on(__name__)
