"""The verb `weights adapt`: an encoder fitted to other pictures, without training."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import TrackletOptions, check_inputs, stated_options
from polyplink.cli.verb import inform, verb
from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result
from polyplink.core.text import many

if TYPE_CHECKING:
    import torch

    from polyplink.data.tables import DataSet
    from polyplink.encoders.encoder import Encoder
    from polyplink.encoders.load import LoadedEncoder
    from polyplink.tracklets.prepare import Prepared
    from polyplink.tracklets.settings import PrepareSettings

FEWEST_CROPS = 100  # to whiten by without a warning


@verb
def adapt_weights(
    weights: options.Weights,
    data: options.Data,
    *,
    name: Annotated[str, Option("--as", help="Name for the adapted weights.")],
    part: options.Part = None,
    tone: Annotated[
        float,
        Option(
            min=0,
            help="Append the crops' whitened colours with this weight, instead of adapting "
            "BatchNorm.",
        ),
    ] = 0.0,
    whiten: Annotated[
        bool, Option(help="Whiten features by these crops, instead of adapting BatchNorm.")
    ] = False,
    least_brightness: Annotated[
        float | None,
        Option(min=0, max=1, help="Brighten darker crops to this mean of their pixels first."),
    ] = None,
    least_contrast: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Raise lower contrast of crops to this standard deviation of their pixels first.",
        ),
    ] = None,
    in_motion: Annotated[
        int,
        Option(
            min=0,
            help="With --whiten: whiten by the differences between this many simulated views of "
            "each annotated still.",
        ),
    ] = 0,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> Result[dict[str, Any]]:
    """Adapt an encoder to other pictures: BatchNorm, whitened features or tone.

    No training: the crops pass the encoder once. Labels are not used, except by --in-motion, for
    which every annotated still is a separate polyp. The operating point for counting does not fit
    the new vectors and is dropped; `polyplink calibrate` fits another.

    Args:
        data: The data folder, of which at most 4096 crops are used.
        tone: Weight of the crops' whitened colours; 0 leaves them out. Without tone and whitening,
            the statistics of BatchNorm are adapted.
        whiten: Whiten features by these crops.
        least_brightness: Mean of a crop's pixels, in [0, 1], to which darker crops are brightened
            first; by default as the encoder does it.
        least_contrast: Standard deviation of a crop's pixels, in [0, 1], to which lower contrast is
            raised first; by default as the encoder does it.
        in_motion: With `whiten`, whiten by the differences between this many simulated views of
            each annotated still, and subtract what views of a tint, as of dyed mucosa, share.
        progress: Called for crops or stills.

    Returns:
        name and path of the adapted weights, and the numbers of adapted BatchNorm layers and crops.

    Raises:
        PolyplinkError: If the encoder has no BatchNorm layers or reads clips, there is no crop, or
            other weights have the name.
    """
    weights, data = Path(weights), Path(data)
    check_inputs(weights, data, [part], device)
    if in_motion and (not whiten or tone):
        raise PolyplinkError(
            "--in-motion goes with --whiten, and without --tone",
            f"give --whiten --in-motion {in_motion} alone",
        )
    unused = stated_options(tracklets)
    if in_motion and unused:
        raise PolyplinkError(f"{unused}: tracklets are not used with --in-motion", "leave it out")
    from polyplink.data.origin import read_origin
    from polyplink.encoders.adapt import set_light_correction
    from polyplink.encoders.device import pick_device
    from polyplink.encoders.load import load_encoder
    from polyplink.encoders.weights import check_free, save_weights, seal, seen_by, stored_path
    from polyplink.tracklets.prepare import prepare
    from polyplink.tracklets.settings import with_options

    # The encoder, fitted to the pictures.
    path = stored_path(name)
    check_free(path)
    loaded = load_encoder(weights, pick_device(device))
    record = loaded.record
    _check_encoder(weights, loaded.encoder, tone, whiten)
    light = {"least_brightness": least_brightness, "least_contrast": least_contrast}
    light_limits = {name: value for name, value in light.items() if value is not None}
    set_light_correction(loaded.encoder, **light_limits)
    settings = with_options(record.prepare, tracklets, read_origin(data))
    if in_motion:
        adapted = _to_stills_in_motion(loaded.encoder, data, part, in_motion, settings, progress)
    else:
        prepared = prepare(
            data,
            settings,
            procedures=part,
            workers=workers,
            progress=partial(progress, "crops"),
        )
        adapted = _to_crops(loaded, prepared, tone, whiten)

    # Its record: the procedures that it has seen, and no operating point.
    if tone or whiten or light_limits:
        record = replace(record, encoder=adapted.encoder.config)
    parent = record.name or weights.stem
    origin = {
        **record.origin,
        "statistics_of": adapted.key,
        "adapted_from": parent,
        "name": path.stem,
        "title": f"{parent}, adapted",
    }
    seen = seen_by(adapted.data, adapted.procedures, [], record.seen)
    record = replace(record, seen=seen, origin=origin, operating=None)
    save_weights(path, adapted.encoder, record)
    seal(path)

    # What was adapted.
    parts = [name for name, used in (("whitening", whiten), ("tone", tone > 0)) if used]
    summary = " and ".join(parts) or many(adapted.layers, "layer")
    facts = {"name": path.stem, "path": path, "layers": adapted.layers, "crops": adapted.crops}
    few = f"{many(adapted.crops, 'crop')}: too few to whiten by, give {FEWEST_CROPS} or more"
    return Result(
        facts,
        printed=[f"{path.stem}: {summary} adapted to {many(adapted.crops, 'crop')}", str(path)],
        warnings=[few] if whiten and adapted.crops < FEWEST_CROPS else (),
    )


def _check_encoder(weights: Path, encoder: "Encoder", tone: float, whiten: bool) -> None:
    """Refuse an encoder that cannot be adapted in this way, before crops are cut."""
    from polyplink.encoders.adapt import batch_norms, unwrap_encoder, wrap_encoder
    from polyplink.encoders.encoder import FrameWise

    if tone or whiten:
        plain = unwrap_encoder(encoder)
        if not {"tone", "whiten"} <= {field.name for field in fields(plain.config)}:  # of a plugin
            raise PolyplinkError(
                f"encoder {plain.config.kind!r} has no fields tone and whiten to record what is "
                "fitted",
                "add them to its configuration, as `SfeConfig` has them",
            )
        wrap_encoder(plain, replace(plain.config, tone=tone, whiten=whiten))
    elif not (isinstance(encoder, FrameWise) and batch_norms(encoder)):
        raise PolyplinkError(
            f"{weights} has no BatchNorm layers of single frames to adapt",
            "train it on these frames instead (`polyplink train --init-from`)",
        )


@dataclass(frozen=True)
class _Adapted:
    """An adapted encoder, and the crops that it was adapted to.

    Attributes:
        encoder: The encoder.
        layers: Number of its BatchNorm layers that were adapted.
        crops: Number of crops.
        data: The data set of the crops.
        procedures: Procedures of the crops.
        key: Key of the crops.
    """

    encoder: "Encoder"
    layers: int
    crops: int
    data: "DataSet"
    procedures: Sequence[str]
    key: str


def _to_crops(loaded: "LoadedEncoder", prepared: "Prepared", tone: float, whiten: bool) -> _Adapted:
    """Fit whitening and tone to crops, or adapt BatchNorm's statistics if neither is set."""
    import numpy as np

    from polyplink.encoders.adapt import CROPS, adapt_statistics, batches, fitted_to_crops
    from polyplink.encoders.encoder import FrameWise
    from polyplink.tracklets.prepare import typical_crops

    encoder = loaded.encoder
    config = loaded.record.encoder
    layers = 0
    pixels = typical_crops(prepared, CROPS)
    if tone or whiten:
        tone = tone or getattr(config, "tone", 0.0)
        whiten = whiten or getattr(config, "whiten", False)
        encoder = fitted_to_crops(encoder, pixels, tone, whiten)
    else:
        assert isinstance(encoder, FrameWise)
        # In random order: batches of one procedure each would lose the variance between them.
        mixed = np.random.default_rng(0).permutation(pixels)
        layers = adapt_statistics(encoder, batches(mixed, encoder.device))
    return _Adapted(
        encoder, layers, len(pixels), prepared.data, list(prepared.procedures), prepared.key
    )


def _to_stills_in_motion(
    encoder: "Encoder",
    folder: Path,
    part: str | None,
    views: int,
    settings: "PrepareSettings",
    progress: Progress,
) -> _Adapted:
    """Whiten an encoder by the differences between views of one polyp.

    Args:
        encoder: The encoder.
        folder: Data folder of annotated stills.
        part: Part of the data set.
        views: Simulated views of each still, in addition to the still itself.
        settings: Size and rule of the crops.
        progress: Called for stills.
    """
    import torch

    from polyplink.data.tables import read_data
    from polyplink.encoders.adapt import WhitenedEncoder, unwrap_encoder
    from polyplink.stills.annotated_stills import read_stills
    from polyplink.stills.still_views import draw_views

    data = read_data(folder)
    procedures = data.part(part)
    stills = read_stills(folder, data, procedures)
    count = 0

    def crops_of_stills() -> "Iterator[torch.Tensor]":
        nonlocal count
        drawn = draw_views(stills, views, settings.size, settings.crop_factor)
        for done, crops in enumerate(drawn, 1):
            count += len(crops)
            progress("stills in motion", done, len(stills))
            yield torch.from_numpy(crops).to(encoder.device)

    whitened = (
        WhitenedEncoder(unwrap_encoder(encoder)).to(encoder.device).fit_within(crops_of_stills())
    )
    key = content_key("stills in motion", views, procedures)
    return _Adapted(whitened.eval(), 0, count, data, procedures, key)
