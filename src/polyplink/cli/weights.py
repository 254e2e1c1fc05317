"""The verbs `weights add`, `save`, `adapt`, `list`, `show` and `cost`: encoders by name."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import Request, TrackletRequest, option
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import content_key, file_key, to_plain, whole_file
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    import torch

    from polyplink.encoders import Encoder
    from polyplink.stills import Still
    from polyplink.tracklets import PrepareSettings

SHIPPED = "this package"  # the source of shipped weights
_HUB_NAME = re.compile(r"-([0-9a-f]{8})\.pth$")  # a file named after its own digest


@dataclass(frozen=True)
class AddRequest(Request):
    """Which file to import, and how the encoder is fed."""

    file: Annotated[Path, Argument(help="The published file, or a folder of `weights save`.")]
    timm: str | None = option("Backbone of timm that the weights are of.", metavar="NAME")
    stages: Sequence[int] = option(
        "With --timm: a stage to append the mean of to the vector, from 0; may be repeated.",
        (),
        "--stage",
    )
    name: str | None = option("Name for the weights.", None, "--as")
    preset: Literal["own", "reference"] = option("As pre-trained, or as NTSSL's program.", "own")
    size: int | None = option("Image size, pixels.")
    crop_factor: float | None = option("Side of a crop, in sides of the box [5].")
    pooling: Literal["cls", "mean", "patchmean", "cat"] | None = option(
        "Pooling instead of the default."
    )
    trust_pickle: bool = option("Allow the file to run code (pickle).", False)
    unverified: bool = option("Accept a file with another SHA-256.", False)


def add_weights(request: AddRequest, progress: Progress = inform) -> Result[dict[str, Any]]:
    """Import published weights; from then on their name serves wherever WEIGHTS is asked for.

    Takes safetensors, .pth, .bin, .pt and .ckpt files, with --timm those of any backbone of timm,
    and folders that `weights save` wrote.

    Returns:
        name, path, title, number of tensors, the published file's sha256, and licence.

    Raises:
        PolyplinkError: If the file is missing, broken, of no known encoder, not the published
            one, or requires running code.
    """
    file = request.file
    if file.is_dir():
        return _add_saved(file, request.name or file.resolve().name)
    PolyplinkError.unless(file.is_file(), f"no file {file}", "check the path")
    from polyplink.data.protocols import published_splits
    from polyplink.encoders import FoundationConfig, Seen, WeightsRecord, write_tensors
    from polyplink.encoders.catalogue import HMVE
    from polyplink.encoders.published import fit_published, fit_timm, read_published
    from polyplink.encoders.weights import RECORD, record_text, seal, stored_path

    state = read_published(file, trust_pickle=request.trust_pickle)
    digest = file_key(file)
    config = FoundationConfig(preset=request.preset, size=request.size, pooling=request.pooling)
    if request.timm is None:
        fitted = fit_published(file, state, config)
    else:
        name, stages = request.timm.removeprefix("timm:"), tuple(request.stages)
        fitted = fit_timm(file, state, name, config, stages=stages)
    published, tensors, encoder, prepare, renamed = fitted
    if not request.unverified:
        check_published(file, digest, published.sha256)
    if request.crop_factor is not None:
        prepare = replace(prepare, crop_factor=request.crop_factor)
    path = stored_path(request.name or published.name)
    origin = {
        "title": published.title,
        "file": file.name,
        "sha256": digest,
        "licence": published.licence,
    }
    seen = Seen(datasets=published.saw)
    if published is HMVE:
        seen = Seen(trained=[("real-colon", n, n) for n in published_splits()["rc27"]])
    verified = bool(published.sha256) and not request.unverified
    verification = {"source": published.source, "verified": verified}
    record = WeightsRecord(encoder, prepare, {"name": path.stem}, seen, origin | verification)
    metadata = {RECORD: record_text(record)}
    write_tensors(path, tensors, metadata)
    seal(path)
    added = {
        "name": path.stem,
        "path": path,
        "title": published.title,
        "tensors": len(tensors),
        "sha256": digest,
        "licence": published.licence,
    }
    text = "{name}: {title}, {tensors} tensors, licence {licence}".format(**added)
    warnings = [
        f"the tensors of {file} have other names than timm's; they were matched by their order, "
        "in which all shapes agree"
    ]
    return Result(added, shown=[text, str(path)], warnings=warnings if renamed else ())


def _add_saved(folder: Path, name: str) -> Result[dict[str, Any]]:
    """Copy a folder of `weights save` into the store, if it is whole."""
    from polyplink.encoders import read_record
    from polyplink.encoders.weights import HUB_FILE, check_seal, read_config, seal, stored_path

    source, path = folder / HUB_FILE, stored_path(name)
    PolyplinkError.unless(
        source.is_file(),
        f"{folder} has no {HUB_FILE}",
        "give a folder that `polyplink weights save` wrote; an exported one is used where it is",
    )
    check_seal(source)
    record, licence = read_record(source), read_config(folder).get("licence")
    with whole_file(path) as new:
        shutil.copyfile(source, new)
    seal(path)
    title = record.name or path.stem
    added = {"name": path.stem, "path": path, "title": title, "licence": licence}
    return Result(added, shown=["{name}: {title}, licence {licence}".format(**added), str(path)])


@dataclass(frozen=True)
class SaveRequest(Request):
    """Which weights to share, and what to say about them."""

    weights: options.Weights
    out: Annotated[Path, Argument(help="New folder.")]
    figures: Path | None = option(
        "Folder of `evaluate` with the figures for the card.", metavar="FOLDER"
    )
    licence: str | None = option("Licence of the weights.")
    mirrors: Sequence[str] = option(
        "Where else to get the folder; may be repeated.", (), "--mirror"
    )


def save_weights_folder(
    request: SaveRequest, progress: Progress = inform
) -> Result[dict[str, Any]]:
    """Write weights as a folder in the Hugging Face Hub's layout, with a model card.

    Raises:
        PolyplinkError: If the weights or figures do not exist, or the folder does.
    """
    from polyplink.encoders import read_record
    from polyplink.encoders.sharing import save_pretrained
    from polyplink.encoders.weights import HUB_FILE

    out = save_pretrained(
        request.weights,
        request.out,
        figures=request.figures,
        licence=request.licence,
        mirrors=request.mirrors,
    )
    record = read_record(out / HUB_FILE)
    n_procedures = len({row[:2] for row in (*record.seen.trained, *record.seen.validated)})
    saved = {"out": out, "sha256": file_key(out / HUB_FILE), "procedures_named": n_procedures}
    warnings = (
        [f"the record names {n_procedures} procedures and their patients"] if n_procedures else []
    )
    licence = request.licence or record.origin.get("licence")
    warnings += [] if licence else ["the licence is not stated; give --licence"]
    return Result(saved, shown=["{out}: SHA-256 {sha256}".format(**saved)], warnings=warnings)


def check_published(path: Path, digest: str, sha256: str) -> None:
    """Refuse a file that is not the published one, where its SHA-256 is known.

    Args:
        path: The file; files of torch's hub carry eight digits of theirs in their names.
        digest: Its SHA-256.
        sha256: The published SHA-256, or "" where none is known.
    """
    name_digest = _HUB_NAME.search(path.name)
    for prefix in (sha256, name_digest.group(1) if name_digest else ""):
        PolyplinkError.unless(
            digest.startswith(prefix),
            f"{path} is not the published file: its SHA-256 begins with {digest[:8]}, not "
            f"{prefix[:8]}",
            "download it again, or give --unverified if you know why",
        )


@dataclass(frozen=True)
class AdaptRequest(TrackletRequest):
    """Which weights to adapt, and to what."""

    weights: options.Weights
    data: options.Data
    name: Annotated[str, Option("--as", help="Name for the adapted weights.")]
    part: options.Part = None
    tone: float = option("Weight of the crops' whitened colours, instead of BatchNorm.", 0.0, min=0)
    whiten: bool = option("Whiten features by these crops, instead of BatchNorm.", False)
    in_motion: int = option(
        "With --whiten: whiten by what this many views of each annotated still differ in, seen by "
        "a moving camera.",
        0,
        min=0,
    )
    device: options.Device = "auto"
    workers: options.Workers = 2


def adapt_weights(request: AdaptRequest, progress: Progress = inform) -> Result[dict[str, Any]]:
    """Adapt an encoder to other pictures: BatchNorm, whitened features or tone.

    No training: the crops pass the encoder once. Labels are not used, except by --in-motion, for
    which every annotated still is a polyp of its own. The operating point for counting does not
    fit the new vectors and is dropped; `polyplink calibrate` finds another.

    Raises:
        PolyplinkError: If the encoder has no BatchNorm layers or reads clips, or there is no crop.
    """
    check_given(request.weights, request.data, [request.part], request.device)
    PolyplinkError.unless(
        not request.in_motion or (request.whiten and not request.tone),
        "--in-motion goes with --whiten, and without --tone",
        f"give --whiten --in-motion {request.in_motion} alone",
    )
    from polyplink.data import read_data, read_origin
    from polyplink.encoders import FrameWise, load_encoder, pick_device, save_weights
    from polyplink.encoders.adapt import CROPS, batches, fitted_to_crops
    from polyplink.encoders.encode import prepare_part
    from polyplink.encoders.finetune import adapt_statistics
    from polyplink.encoders.leakage import seen_by
    from polyplink.encoders.weights import seal, stored_path
    from polyplink.stills import read_stills
    from polyplink.tracklets.prepare import typical_crops

    path, device = stored_path(request.name), pick_device(request.device)
    loaded = load_encoder(request.weights, device)
    encoder, record = loaded.encoder, loaded.record
    settings = request.on(record.prepare, read_origin(request.data))
    layers, fits = 0, request.tone > 0 or request.whiten
    if request.in_motion:
        data = read_data(request.data)
        procedures = data.part(request.part)
        stills = read_stills(request.data, data, procedures)
        encoder, crops = _whitened_in_motion(encoder, stills, request.in_motion, settings, progress)
        statistics = content_key("stills in motion", request.in_motion, procedures)
    else:
        prepared = prepare_part(request.data, settings, request.part, request.workers, progress)
        data, procedures = prepared.data, list(prepared.procedures)
        pixels = typical_crops(prepared, CROPS)
        crops, statistics = len(pixels), prepared.key
        if fits:
            tone = request.tone or getattr(record.encoder, "tone", 0.0)
            whiten = request.whiten or getattr(record.encoder, "whiten", False)
            encoder = fitted_to_crops(encoder, pixels, tone, whiten)
        elif isinstance(encoder, FrameWise):
            layers = adapt_statistics(encoder, batches(pixels, device))
    if fits:
        record = replace(record, encoder=encoder.config)
    PolyplinkError.unless(
        layers > 0 or fits,
        f"{request.weights} has no BatchNorm layers of single frames to adapt",
        "train it on these frames instead (`polyplink train --init-from`)",
    )
    seen = seen_by(data, procedures, [], record.seen)
    parent = record.name or request.weights.stem
    origin = dict(record.origin) | {"statistics_of": statistics, "adapted_from": parent}
    origin |= {"name": path.stem, "title": f"{parent}, adapted"}
    save_weights(path, encoder, replace(record, seen=seen, origin=origin, operating=None))
    seal(path)
    facts = {"name": path.stem, "path": path, "layers": layers, "crops": crops}
    parts = {"whitening": request.whiten, "tone": request.tone > 0}
    summary = (
        " and ".join(name for name, requested in parts.items() if requested) or f"{layers} layers"
    )
    text = f"{path.stem}: {summary} adapted to {crops} crops"
    return Result(facts, shown=[text, str(path)])


def _whitened_in_motion(
    encoder: "Encoder",
    stills: "Sequence[Still]",
    views: int,
    settings: "PrepareSettings",
    progress: Progress,
) -> "tuple[Encoder, int]":
    """An encoder whitened by what views of one polyp differ in, and the number of crops.

    Args:
        encoder: The encoder.
        stills: Annotated stills.
        views: Views of each beside the still itself.
        settings: Size and rule of the crops.
        progress: Called for stills.
    """
    import torch

    from polyplink.encoders.adapt import unwrapped
    from polyplink.encoders.whitening import WhitenedEncoder
    from polyplink.stills import draw_views

    count = 0

    def crops_of_stills() -> "Iterator[torch.Tensor]":
        nonlocal count
        drawn = draw_views(stills, views, settings.size, settings.crop_factor)
        for done, crops in enumerate(drawn, 1):
            count += len(crops)
            progress("stills in motion", done, len(stills))
            yield torch.from_numpy(crops).to(encoder.device)

    whitened = WhitenedEncoder(unwrapped(encoder)).to(encoder.device).fit_within(crops_of_stills())
    return whitened.eval(), count


def list_weights(request: Request, progress: Progress = inform) -> Result[list[dict[str, str]]]:
    """List the shipped encoder, known encoders and added weights."""
    from polyplink.encoders import read_record
    from polyplink.encoders.catalogue import FOUNDATION
    from polyplink.encoders.weights import stored
    from polyplink.models import models

    columns = ("name", "title", "licence", "path", "source")
    shipped = [model for model in models() if model.kind == "encoder"]
    listed = [
        (model.name, model.title, model.licence, str(model.path), SHIPPED) for model in shipped
    ]
    listed += [(s.name, s.title, s.licence, "", s.source) for s in FOUNDATION.values()]
    for path in stored():
        try:
            origin = {"title": "trained here"} | dict(read_record(path).origin)
        except PolyplinkError:  # a file that `weights add` did not write
            origin = {}
        title, licence = origin.get("title", "no encoder"), origin.get("licence", "unknown")
        name = path.name.removesuffix(".safetensors")
        listed.append((name, str(title), str(licence), str(path), str(origin.get("source", ""))))
    rows = {row[0]: dict(zip(columns, row, strict=True)) for row in listed}
    shown = [
        f"{row['name']:13} {row['title']:19} {row['licence']}\n{'':14}"
        + (row["path"] or f"not here; from {row['source']}")
        for row in rows.values()
    ]
    return Result(list(rows.values()), shown=shown)


@dataclass(frozen=True)
class ShowRequest(Request):
    """Which weights to show."""

    weights: Annotated[Path, Argument(help="Weights file, run folder, or a name.")]


def show_weights(request: ShowRequest, progress: Progress = inform) -> Result[dict[str, Any]]:
    """Print the record of weights as JSON: encoder, crops, origin, what they have seen.

    Raises:
        PolyplinkError: If they do not exist, or were changed since they were added.
    """
    from polyplink.encoders import read_record, weights_path
    from polyplink.encoders.weights import check_seal

    path = weights_path(request.weights)
    digest = file_key(path)
    check_seal(path, digest)
    plain: dict[str, Any] = {"path": str(path), "sha256": digest} | to_plain(read_record(path))
    return Result(plain, shown=[json.dumps(plain, indent=1)])


@dataclass(frozen=True)
class CostRequest(Request):
    """Which encoder to count, for which clip."""

    name: Annotated[str, Argument(help="Name of an encoder or a recipe.")]
    size: int | None = option("Image size, pixels.", min=1)
    frames: int = option("Frames of the clip.", 8, min=1)


def cost_weights(request: CostRequest, progress: Progress = inform) -> Result[dict[str, Any]]:
    """Count parameters and multiply-accumulates of an encoder.

    Raises:
        PolyplinkError: If there is no such encoder, or it refuses the size.
    """
    from polyplink.recipes.cost import cost_of

    cost = cost_of(request.name, request.size, request.frames)
    text = (
        "{name} at {frames} x {size} x {size}: {params_m:.2f} M parameters "
        "({published_params_m:.2f} M as the paper counts; projector {projector_m:.2f} M), "
        "{published_macs_g:.2f} G multiply-accumulates as the paper counts, "
        "{all_macs_g:.2f} G with attention and without norms"
    )
    return Result(cost, shown=[text.format(**cost)])
