"""Weights files: their location on this machine, their tensors, and their record.

Added weights are in the store: the folder $POLYPLINK_HOME/weights if that variable is set, or else
polyplink/weights in the user's data folder ($XDG_DATA_HOME, or ~/.local/share). The SHA-256 of
NAME.safetensors is stored next to it. A name that is not in the store is looked up as a folder of
`save_pretrained` or `export` in the folders of $POLYPLINK_MIRRORS.

The record names the procedures that the encoder has seen, on which it must not be evaluated.
Procedures are compared by name, not by content: a procedure remains the same after its table is
corrected or imported in another way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from polyplink.core.artefacts import (
    KEY_DIGITS,
    atomic_file,
    content_key,
    file_key,
    parse_json,
    read_json,
    read_plain,
    to_plain,
    write_text,
)
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.lazy_torch import torch
from polyplink.core.text import short_repr
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.models.shipped import (
    ENCODER,
    ShippedModel,
    is_shipped,
    models,
    shipped_model,
    shipped_names,
)
from polyplink.tracklets.settings import PrepareSettings

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet
    from polyplink.encoders.encoder import Encoder

SUFFIX = ".safetensors"
WEIGHTS_FILE = f"weights{SUFFIX}"
HUB_FILE = f"model{SUFFIX}"  # in a folder of `save_pretrained`
FRAMES = "frames.onnx"  # in a folder of `export`
CONFIG = "config.json"  # in both
RECORD = "polyplink"  # metadata entry of the file with the record
_FORMAT = 1


def store_folder() -> Path:
    """The folder of added weights; it need not exist."""
    if home := os.environ.get("POLYPLINK_HOME"):
        return Path(home) / "weights"
    shared = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(shared) / "polyplink" / "weights"


def stored_path(name: str) -> Path:
    """The file of a name in the store; it need not exist.

    Raises:
        PolyplinkError: If the name is a path or starts with a dot.
    """
    plain = name.removesuffix(SUFFIX)
    if not plain or plain != Path(plain).name or plain.startswith("."):
        raise PolyplinkError(
            f"{name!r} is not a valid name for weights", "use letters, digits, dots and dashes"
        )
    if plain in shipped_names("encoder"):
        raise PolyplinkError(f"{plain} is the name of a shipped encoder", "use another name")
    return store_folder() / f"{plain}{SUFFIX}"


def check_free(path: Path, digest: str | None = None) -> None:
    """Refuse to replace weights of the store by other ones; a damaged file may be replaced.

    Args:
        path: The file in the store; it need not exist.
        digest: SHA-256 of the file to add, which may have been added before; None for new weights.
    """
    if not path.is_file():
        return
    try:
        origin = read_record(path).origin
    except PolyplinkError:
        return
    added = None if "adapted_from" in origin else origin.get("sha256")
    if digest is None or digest not in (added, file_key(path)):
        raise PolyplinkError(
            f"other weights are called {path.stem} ({path})",
            "give another name with --as, or remove that file first",
        )


def added_paths() -> list[Path]:
    """All added weights, by name."""
    return sorted(store_folder().glob(f"[!.]*{SUFFIX}"))


def added_weights(weights: Path) -> Path | None:
    """The file of added weights with a name; None for a path, or if no such weights were added.

    Raises:
        PolyplinkError: If the mirrors have only broken copies; it is about the first.
    """
    is_path = weights.exists() or weights.name != str(weights)
    if is_path or is_shipped(weights, "encoder"):
        return None
    if (path := stored_path(weights.name)).is_file():
        return path
    broken = list[PolyplinkError]()
    for mirror in filter(None, os.environ.get("POLYPLINK_MIRRORS", "").split(os.pathsep)):
        for name in (HUB_FILE, FRAMES):
            path = Path(mirror) / weights / name
            try:
                if path.is_file():
                    check_seal(path)
                    return path
            except PolyplinkError as error:  # try the next mirror
                broken.append(error)
    if broken:
        raise broken[0]
    return None


def weights_path(weights: Path) -> Path:
    """The weights file of a path, a folder, or the name of a shipped encoder or added weights.

    Raises:
        PolyplinkError: If there is no such file (for a known model, the message says where to get
            it), or a shipped file was changed.
    """
    if is_shipped(weights, "encoder"):
        return shipped_model(weights.name).path
    path = weights
    if weights.is_dir():  # of a run, in the Hub's layout, or an exported encoder
        files = (weights / name for name in (WEIGHTS_FILE, HUB_FILE, FRAMES))
        path = next((file for file in files if file.is_file()), weights / WEIGHTS_FILE)
    if path.is_file():
        return path
    if (added := added_weights(weights)) is not None:
        return added
    if path.suffix == ".onnx":
        raise PolyplinkError(
            f"no exported encoder {path}", "export weights with `polyplink export WEIGHTS OUT`"
        )
    from polyplink.data.tables import is_data_folder  # noqa: PLC0415 - only needed for errors

    if is_data_folder(weights):
        raise PolyplinkError(
            f"{weights} is a data folder and holds no weights",
            f"give the weights before it, for example `encoder-v1 {weights}`",
        )
    if is_shipped(weights, "detector"):
        raise PolyplinkError(
            f"{weights} is a detector and holds no encoder",
            f"give {ENCODER}, or a name that `polyplink weights list` shows",
        )
    from polyplink.encoders.catalogue import FOUNDATION  # noqa: PLC0415 - only needed for errors

    if weights.name == str(weights) and (spec := FOUNDATION.get(weights.name)) is not None:
        raise PolyplinkError(
            f"the weights of {spec.title} are not on this machine, and nothing is downloaded",
            f"get {spec.file} from {spec.source} (licence: {spec.licence}), then "
            "`polyplink weights add FILE`",
        )
    raise PolyplinkError(
        f"no weights at {path}",
        "give a .safetensors file, a folder that `polyplink train` wrote, or a name that "
        "`polyplink weights list` shows",
    )


def seal(path: Path) -> None:
    """Write the SHA-256 of added weights next to them, in the format of sha256sum."""
    write_text(path.with_name(f"{path.name}.sha256"), f"{file_key(path)}  {path.name}\n")


def check_seal(path: Path, digest: str | None = None) -> None:
    """Refuse a weights file that was changed after it was added, saved or exported.

    Args:
        path: Any weights file; one without a .sha256 file or a config.json next to it passes.
        digest: SHA-256 of the file, if it is known already.
    """
    seal_file = path.with_name(f"{path.name}.sha256")
    expected, hint = "", "add it again with `polyplink weights add`"
    if seal_file.is_file():
        expected = seal_file.read_bytes().decode("utf-8", "replace").split(" ")[0]
    elif path.name != WEIGHTS_FILE and path.with_name(CONFIG).is_file():
        expected = str(read_config(path.parent)["files"].get(path.name, ""))
        hint = "copy its folder again, or from another mirror"
    if not expected:
        return
    digest = digest or file_key(path)
    if digest != expected:
        raise PolyplinkError(
            f"{path} is not the file that was added: its SHA-256 begins with {digest[:8]}, not "
            f"{expected[:8]}",
            hint,
        )


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json of a folder of `save_pretrained` or `export`.

    Raises:
        PolyplinkError: If the file is missing, or was not written by polyplink.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise PolyplinkError(
            f"no {CONFIG} in {folder}, which the folder of an exported encoder needs",
            "export the weights again with `polyplink export`",
        )
    config = read_json(path)
    if (
        not isinstance(config, dict)
        or not isinstance(config.get("files"), dict)
        or "record" not in config
    ):
        raise PolyplinkError(
            f"{path} was not written by polyplink",
            "give a folder that `polyplink export` or `polyplink weights save` wrote",
        )
    return dict(config)


def read_tensors(path: Path, hint: str = "train or copy again") -> dict[str, torch.Tensor]:
    """Read all tensors of a safetensors file, to the CPU.

    Raises:
        PolyplinkError: If the file is not safetensors.
    """
    from safetensors.torch import load_file  # noqa: PLC0415 - it imports torch

    if path.suffix == ".onnx":
        raise PolyplinkError(
            f"{path} is an exported encoder, which cannot be trained, changed or exported",
            "give the weights it was exported from",
        )
    try:
        return load_file(path)
    except SafetensorError as error:
        raise PolyplinkError(f"{path} is not safetensors ({first_line(error)})", hint) from None


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors of any device as safetensors, atomically."""
    from safetensors.torch import save  # noqa: PLC0415 - it imports torch

    cpu = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    # Serialised in memory: the library's writer does not report a full disk.
    data = save(cpu, dict(metadata))
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


_OF_RECIPE = (
    "give weights of the encoder in the recipe, or set the encoder of these weights in the recipe "
    "(--set encoder.frame_encoder=timm:NAME)"
)


def check_state(
    path: Path,
    state: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    hint: str = _OF_RECIPE,
) -> None:
    """Check that tensors have exactly the names and shapes of a model.

    Args:
        path: Their file, for the message.
        state: The tensors.
        expected: The model's state dict.
        hint: How to fix it.

    Raises:
        PolyplinkError: If they differ; counts missing tensors, unknown tensors and other shapes,
            and names one.
    """
    missing = sorted(expected.keys() - state.keys())
    unknown = sorted(state.keys() - expected.keys())
    bent = sorted(k for k in expected.keys() & state.keys() if expected[k].shape != state[k].shape)
    if missing or unknown or bent:
        raise PolyplinkError(
            f"{path} holds weights of another encoder: {len(missing)} tensors missing, "
            f"{len(unknown)} unknown, {len(bent)} of another shape, "
            f"first {(missing + unknown + bent)[0]!r}",
            hint,
        )


@dataclass(frozen=True)
class Seen:
    """Training and validation data of an encoder: the basis of the leakage check.

    Attributes:
        data: Key of the data set.
        trained: (data set, procedure, patient) of every training procedure.
        validated: (data set, procedure, patient) of every validation procedure.
        datasets: Data sets of its published pre-training, of unknown procedures.
    """

    data: str = ""
    trained: Sequence[tuple[str, str, str]] = ()
    validated: Sequence[tuple[str, str, str]] = ()
    datasets: Sequence[str] = ()

    def merged_with(self, other: Seen) -> Seen:
        """Add the data of another encoder, from which this one was trained; each row once."""
        return replace(
            self,
            trained=list(dict.fromkeys([*self.trained, *other.trained])),
            validated=list(dict.fromkeys([*self.validated, *other.validated])),
            datasets=list(dict.fromkeys([*self.datasets, *other.datasets])),
        )


def _rows_of(data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str, str]]:
    """(data set, procedure, patient) of some procedures, in the order of the table."""
    table = data.procedures
    table = table.filter(table["procedure_id"].is_in(list(procedures)))
    return table.select("dataset", "procedure_id", "patient").rows()


def seen_by(data: DataSet, trained: Sequence[str], validated: Sequence[str], start: Seen) -> Seen:
    """The record of the training data of an encoder, stored in its weights.

    Args:
        data: The data set.
        trained: Procedures trained on.
        validated: Procedures validated on.
        start: Training data of the weights that the training started from.
    """
    seen = Seen(data.key, _rows_of(data, trained), _rows_of(data, validated))
    return seen.merged_with(start)


def seen_procedures(seen: Seen, data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str]]:
    """Procedures of a part that an encoder has seen, with the reason.

    Names of data sets are compared without case and separators. A data set that is known to share
    videos with a data set of the training counts as seen completely, because its names do not
    identify the shared videos.

    Args:
        seen: Result of `seen_by`.
        data: The data set.
        procedures: The part.

    Returns:
        Procedure id and reason, in the order of the data set.
    """
    # Imported here, because listing weights needs no tables and should not wait for polars.
    from polyplink.data.vocabulary import known_overlap, plain_name  # noqa: PLC0415

    rows = [*seen.trained, *seen.validated]
    seen_names = {(plain_name(dataset), procedure) for dataset, procedure, _ in rows}
    patients = {(plain_name(dataset), patient) for dataset, _, patient in rows}
    sets = sorted({dataset for dataset, _, _ in rows} | set(seen.datasets))
    overlaps = []
    pretrained = {plain_name(name) for name in seen.datasets}
    for dataset, procedure, patient in _rows_of(data, procedures):
        plain = plain_name(dataset)
        reasons = (known_overlap(dataset, other) for other in sets)
        shared = [reason for reason in reasons if reason is not None]
        if (plain, procedure) in seen_names:
            overlaps.append((procedure, "the procedure itself"))
        elif (plain, patient) in patients:
            overlaps.append((procedure, f"its patient {patient}"))
        elif plain in pretrained:
            overlaps.append((procedure, f"{dataset} was in its pre-training"))
        elif shared:
            overlaps.append((procedure, shared[0]))
    return overlaps


def guard(seen: Seen, data: DataSet, part: str | Sequence[str]) -> None:
    """Refuse to evaluate on procedures (a part, or their ids) that an encoder has seen."""
    procedures = data.part(part) if isinstance(part, str) else part
    seen_here = seen_procedures(seen, data, procedures)
    if seen_here:
        first_five = ", ".join(f"{name} ({reason})" for name, reason in seen_here[:5])
        raise PolyplinkError(
            f"the encoder was trained or validated on {len(seen_here)} of these procedures, or saw "
            f"their patients: {first_five}",
            "evaluate on another --part",
        )


@dataclass(frozen=True)
class WeightsRecord:
    """Everything needed to use weights as they were trained; part of the weights file.

    Attributes:
        encoder: Configuration of the encoder, without `frame_weights`, which are in the file.
        prepare: Crop rule and sampling of the training.
        recipe: All fields of the recipe of the training.
        seen: Training and validation data.
        origin: Epoch, validation loss and selection criterion; for published weights the source.
        operating: Links, prices and false alarms for counting, or None.
    """

    __repr__ = short_repr

    encoder: AnyEncoderConfig
    prepare: PrepareSettings
    recipe: Mapping[str, Any]
    seen: Seen
    origin: Mapping[str, Any]
    operating: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """Display name: the name of the weights, of their recipe, or a title; may be empty."""
        titles = (self.origin.get("name"), self.recipe.get("name"), self.origin.get("title"))
        return str(next(filter(None, titles), ""))


def save_weights(path: Path, encoder: Encoder, record: WeightsRecord) -> None:
    """Write the encoder and its record as one safetensors file, atomically."""
    if isinstance(encoder.config, FoundationConfig):  # with presets filled in
        record = replace(record, encoder=encoder.config)
    write_tensors(path, encoder.state_dict(), {RECORD: record_text(record)})


def record_text(record: WeightsRecord) -> str:
    """Serialise a record as JSON, which `parse_record` reads."""
    plain = to_plain(replace(record, encoder=replace(record.encoder, frame_weights=None)))
    return json.dumps({"format": _FORMAT} | plain, sort_keys=True)


def read_record(path: Path) -> WeightsRecord:
    """Read the record of a weights file without its tensors; for ONNX, from config.json.

    Raises:
        PolyplinkError: If the file is not safetensors, or has no polyplink record.
    """
    if path.suffix == ".onnx":
        return parse_record(json.dumps(read_config(path.parent)["record"]), path.with_name(CONFIG))
    text = _record_of(path)
    if text is None:
        raise PolyplinkError(
            f"{path} holds no polyplink record", "give weights that `polyplink train` wrote"
        )
    return parse_record(text, path)


def _record_of(path: Path) -> str | None:
    """The text of the record in a safetensors file; None if it has none, as files of timm."""
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get(RECORD)
    except (SafetensorError, OSError) as error:
        raise PolyplinkError(
            f"{path} is not safetensors ({first_line(error)})", "train or copy again"
        ) from None


def parse_record(text: str, path: Path) -> WeightsRecord:
    """Parse a record written by `record_text`.

    Raises:
        PolyplinkError: If the record is broken or of another format; the message names `path`.
    """
    try:
        record = parse_json(text, f"the record of {path}", "train or copy again")
        if record.pop("format", None) != _FORMAT:
            raise PolyplinkError(f"{path} has another format of record", "update polyplink")
        problem, hint = f"the record of {path} is broken", "train or copy again"
        return read_plain(WeightsRecord, record, problem, hint)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PolyplinkError(
            f"the record of {path} is broken ({first_line(error)})", "train or copy again"
        ) from None


def weights_id(path: Path) -> str:
    """The id of weights, stored with their vectors.

    The id of exported weights does not depend on their operating point.

    Args:
        path: Result of `weights_path`.
    """
    if path.suffix == ".onnx":
        return content_key("exported", read_config(path.parent)["files"])
    return file_key(path)[:KEY_DIGITS]


def made_with(record: WeightsRecord) -> ShippedModel | None:
    """The shipped encoder that weights were made with, or None.

    Weights that are calibrated, exported, adapted or trained further, and those trained on polyps
    that the shipped encoder grouped, have seen all that it was trained on.
    """
    trained = set(record.seen.trained)
    for model in models():
        is_here = model.kind == "encoder" and model.path.is_file()
        if is_here and trained.issuperset(read_record(model.path).seen.trained):
            return model
    return None


def seen_before_training(
    config: AnyEncoderConfig, init_from: Path | None
) -> tuple[Seen, dict[str, str]]:
    """Data that an encoder has seen before training, and the id of its initial weights.

    Both are empty if it starts from random values, or from a backbone in a file without a record.

    Raises:
        PolyplinkError: If other weights have no record.
    """
    source, has_backbone = init_from, isinstance(config, EncoderConfig | SfeConfig | MveConfig)
    if source is None and (has_backbone or isinstance(config, FoundationConfig)):
        source = config.frame_weights
    if source is None:
        return Seen(), {}
    path = weights_path(source)
    if init_from is None and has_backbone and _record_of(path) is None:
        return Seen(), {}
    return read_record(path).seen, {"init_from": weights_id(path)}
