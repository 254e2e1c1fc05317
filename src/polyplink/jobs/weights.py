"""Weights of others: added once from a file, then known by name."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from polyplink.core.artefacts import file_key, to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data.protocols import published_splits
from polyplink.encoders import (
    FoundationConfig,
    Seen,
    WeightsRecord,
    read_record,
    weights_path,
    write_tensors,
)
from polyplink.encoders.foundation import FOUNDATION
from polyplink.encoders.published import (
    HMVE,
    RESNET,
    Recognised,
    fit_published,
    is_resnet,
    read_published,
    unwrap,
)
from polyplink.encoders.store import check_seal, seal, stored, stored_path
from polyplink.encoders.weights import write_weights

BACKBONE = "resnet50.tv2_in1k"  # timm's name of torchvision's second weights
_HUB_NAME = re.compile(r"-([0-9a-f]{8})\.pth$")  # a file named after its own digest


@dataclass(frozen=True)
class Added:
    """Weights in the store.

    Attributes:
        name: What they are called from now on.
        path: Where they lie.
        title: What they are.
        tensors: How many.
        sha256: Of the published file.
        licence: Of the weights.
    """

    name: str
    path: Path
    title: str
    tensors: int
    sha256: str
    licence: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def check_published(path: Path, digest: str, wanted: str) -> None:
    """Refuse a file that is not the published one, where its SHA-256 is known.

    Args:
        path: The file; the eight digits that files of torch's hub carry in their names count.
        digest: Its SHA-256.
        wanted: The published SHA-256, or "" where none is known.

    Raises:
        PolyplinkError: If they differ.
    """
    named = _HUB_NAME.search(path.name)
    for known in (wanted, named.group(1) if named else ""):
        PolyplinkError.unless(
            digest.startswith(known),
            f"{path} is not the published file: its SHA-256 begins with {digest[:8]}, not "
            f"{known[:8]}",
            "download it again, or give --unverified if you know why",
        )


def add_weights(
    file: Path,
    *,
    name: str | None = None,
    preset: Literal["own", "reference"] = "own",
    size: int | None = None,
    pooling: Literal["cls", "mean", "patchmean", "cat"] | None = None,
    trust_pickle: bool = False,
    unverified: bool = False,
) -> Added:
    """Import published weights: recognise their layout, check them, keep them by name.

    Args:
        file: As it was published: safetensors, .pth, .bin, .pt or .ckpt.
        name: What to call them; by default what they are.
        preset: How a foundation encoder is fed; see `FoundationConfig`.
        size: Image size, in place of the preset's.
        pooling: Pooling, in place of the preset's.
        trust_pickle: Let a pickle run what it wants to.
        unverified: Take a file whose SHA-256 is not the published one.

    Raises:
        PolyplinkError: If the file is missing, broken, of no known encoder, not the published
            one, or wants to run code.
    """
    loaded = read_published(file, trust_pickle=trust_pickle)
    state, digest = unwrap(loaded), file_key(file)
    if is_resnet(state):
        return _add_backbone(file, state, name or BACKBONE, digest, unverified)
    config = FoundationConfig(preset=preset, size=size, pooling=pooling)
    fitted = fit_published(file, state, config)
    if not unverified:
        check_published(file, digest, fitted.origin.sha256)
    path = stored_path(name or fitted.name)
    origin = {"title": fitted.title, "file": file.name, "sha256": digest}
    origin |= {"source": fitted.origin.source, "licence": fitted.origin.licence}
    record = WeightsRecord(
        encoder=fitted.config,
        prepare=fitted.prepare,
        recipe={"name": path.stem},
        seen=_seen(fitted),
        origin=origin | {"verified": bool(fitted.origin.sha256) and not unverified},
    )
    write_weights(path, fitted.tensors, record)
    seal(path)
    return Added(path.stem, path, fitted.title, len(fitted.tensors), digest, fitted.origin.licence)


def _seen(fitted: Recognised) -> Seen:
    """What is known of what others trained on."""
    if fitted.name == HMVE.name:
        rows = [("real-colon", name, name) for name in published_splits()["rc27"]]
        return Seen(trained=rows)
    return Seen(datasets=fitted.origin.saw)


def _add_backbone(
    file: Path, state: dict[str, Any], name: str, digest: str, unverified: bool
) -> Added:
    if not unverified:
        check_published(file, digest, "")
    path = stored_path(name)
    licence = "BSD-3-Clause (torchvision)"
    told = {"title": RESNET, "file": file.name, "sha256": digest, "licence": licence}
    write_tensors(path, state, {"backbone": json.dumps(told)})
    seal(path)
    return Added(path.name.removesuffix(".safetensors"), path, RESNET, len(state), digest, licence)


def list_weights() -> list[dict[str, str]]:
    """Every known encoder and every added file: name, what it is, licence, where it lies."""
    rows = {
        spec.name: {
            "name": spec.name,
            "title": spec.title,
            "licence": spec.origin.licence,
            "path": "",
            "source": spec.origin.source,
        }
        for spec in FOUNDATION.values()
    }
    for path in stored():
        name = path.name.removesuffix(".safetensors")
        told = _origin(path)
        rows[name] = {
            "name": name,
            "title": str(told.get("title", "a backbone")),
            "licence": str(told.get("licence", "unknown")),
            "path": str(path),
            "source": str(told.get("source", "")),
        }
    return list(rows.values())


def _origin(path: Path) -> dict[str, Any]:
    try:
        return dict(read_record(path).origin)
    except PolyplinkError:  # a backbone carries no record of an encoder
        return {}


def show_weights(given: Path) -> dict[str, Any]:
    """The whole record of weights, and the SHA-256 that they have.

    Raises:
        PolyplinkError: If there are none, or they were changed since they were added.
    """
    path = weights_path(given)
    digest = file_key(path)
    check_seal(path, digest)
    plain: dict[str, Any] = to_plain(read_record(path))
    return {"path": str(path), "sha256": digest} | plain
