"""The verb `weights add`: imports published weights under a name."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from polyplink.cli.options import StrPath
from polyplink.cli.verb import verb
from polyplink.core.artefacts import atomic_file, file_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Result


@verb
def add_weights(
    file: Annotated[StrPath, Argument(help="The published file, or a folder of `weights save`.")],
    *,
    timm: Annotated[
        str | None,
        Option(metavar="NAME", help="timm's name of the backbone that the weights belong to."),
    ] = None,
    stages: Annotated[
        Sequence[int],
        Option(
            "--stage",
            help="With --timm: a stage, from 0, with its mean appended to the vector; may be "
            "repeated.",
        ),
    ] = (),
    rings: Annotated[
        Sequence[float],
        Option(
            "--ring",
            help="With --stage: radius of a circle about the crop's centre, in halves of its side, "
            "with separate means inside and outside; may be repeated.",
        ),
    ] = (),
    name: Annotated[str | None, Option("--as", help="Name for the weights.")] = None,
    preset: Annotated[
        Literal["own", "reference"], Option(help="As pre-trained, or as NTSSL's program.")
    ] = "own",
    size: Annotated[int | None, Option(help="Image size, pixels.")] = None,
    crop_factor: Annotated[
        float | None, Option(help="Side of a crop, in sides of the box [5].")
    ] = None,
    pooling: Annotated[
        Literal["cls", "mean", "patchmean", "cat"] | None,
        Option(help="Pooling instead of the default."),
    ] = None,
    trust_pickle: Annotated[bool, Option(help="Allow the file to run code (pickle).")] = False,
    unverified: Annotated[bool, Option(help="Accept a file with another SHA-256.")] = False,
) -> Result[dict[str, Any]]:
    """Import published weights under a name, which other commands take as WEIGHTS.

    Takes safetensors, .pth, .bin, .pt and .ckpt files, with --timm for any backbone of timm, and
    folders that `weights save` wrote.

    Args:
        name: Name for the weights; by default the encoder's or the folder's.

    Returns:
        name, path, title, number of tensors, the published file's sha256, and licence.

    Raises:
        PolyplinkError: If the file is missing or broken, belongs to no known encoder, is not the
            published file, or requires running code, or if other weights have the name.
    """
    file = Path(file)
    if timm is None and stages:
        raise PolyplinkError("--stage is for --timm", "leave it out")
    if not stages and rings:
        raise PolyplinkError("--ring is for --stage", "leave it out")
    if file.is_dir():
        other_preset = None if preset == "own" else preset
        changed = {
            "timm": timm,
            "preset": other_preset,
            "size": size,
            "crop-factor": crop_factor,
            "pooling": pooling,
        }
        for option, value in changed.items():
            if value is not None:
                raise PolyplinkError(
                    f"--{option} is for a published file, and {file} is a folder of `weights "
                    "save` with a complete encoder",
                    "leave it out",
                )
        return _add_saved(file, name or file.resolve().name)
    from polyplink.data.files.folders import check_is_file

    check_is_file(file)  # before torch is imported
    from polyplink.encoders.config import FoundationConfig
    from polyplink.encoders.published import (
        check_published,
        fit_published,
        fit_timm,
        read_published,
        seen_by_published,
    )
    from polyplink.encoders.weights import (
        RECORD,
        WeightsRecord,
        check_free,
        record_text,
        seal,
        stored_path,
        write_tensors,
    )

    # The encoder that the tensors belong to.
    state = read_published(file, trust_pickle=trust_pickle)
    digest = file_key(file)
    config = FoundationConfig(preset=preset, size=size, pooling=pooling)
    if timm is None:
        fitted = fit_published(file, state, config)
    else:
        backbone = timm.removeprefix("timm:")
        fitted = fit_timm(file, state, backbone, config, stages=tuple(stages), rings=tuple(rings))
    published, tensors, encoder, prepare, renamed = fitted
    if not unverified:
        check_published(file, digest, published.sha256)
    if crop_factor is not None:
        prepare = replace(prepare, crop_factor=crop_factor)

    # The weights, stored with their record.
    path = stored_path(name or published.name)
    check_free(path, digest)
    origin = {
        "title": published.title,
        "file": file.name,
        "sha256": digest,
        "licence": published.licence,
        "source": published.source,
        "verified": bool(published.sha256) and not unverified,
    }
    record = WeightsRecord(
        encoder, prepare, {"name": path.stem}, seen_by_published(published), origin
    )
    write_tensors(path, tensors, {RECORD: record_text(record)})
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
    return Result(added, printed=[text, str(path)], warnings=warnings if renamed else ())


def _add_saved(folder: Path, name: str) -> Result[dict[str, Any]]:
    """Copy a folder of `weights save` into the store, if it is complete."""
    from polyplink.encoders.weights import (
        HUB_FILE,
        check_free,
        check_seal,
        read_config,
        read_record,
        seal,
        stored_path,
    )

    source = folder / HUB_FILE
    path = stored_path(name)
    if not source.is_file():
        raise PolyplinkError(
            f"{folder} has no {HUB_FILE}",
            "give a folder that `polyplink weights save` wrote; pass an exported folder as WEIGHTS",
        )
    check_seal(source)
    check_free(path, file_key(source))
    record = read_record(source)
    licence = read_config(folder).get("licence")
    with atomic_file(path) as new:
        shutil.copyfile(source, new)
    seal(path)
    title = record.name or path.stem
    added = {"name": path.stem, "path": path, "title": title, "licence": licence}
    return Result(added, printed=["{name}: {title}, licence {licence}".format(**added), str(path)])
