"""The models behind a count, and the notice on shipped models."""

from dataclasses import dataclass
from pathlib import Path

from polyplink.associate.identities import OperatingPoint
from polyplink.core.artefacts import file_key
from polyplink.core.messages import Message
from polyplink.data.origin import read_origin
from polyplink.models.shipped import models


@dataclass(frozen=True)
class UsedModel:
    """A model that a count was made with.

    Attributes:
        kind: "detector" or "encoder".
        name: Name for display.
        sha256: SHA-256 of the file; None for a model without a file.
        shipped: Whether it is shipped with polyplink.
    """

    kind: str
    name: str
    sha256: str | None
    shipped: bool

    def __str__(self) -> str:
        digest = "" if self.sha256 is None else f" (SHA-256 {self.sha256[:16]})"
        return f"{self.kind} {self.name}{digest}"


def used_models(weights: Path, name: str, data: Path) -> tuple[UsedModel, ...]:
    """The models that a count was made with: the detector, if one is recorded, and the encoder.

    Args:
        weights: The weights file.
        name: Name of the encoder.
        data: The data folder of the boxes.
    """
    origin = read_origin(data)
    shipped_hashes = {model.sha256 for model in models()}
    used = [] if origin is None else [("detector", origin.name, origin.sha256)]
    used.append(("encoder", name, file_key(weights)))
    return tuple(UsedModel(*model, shipped=model[2] in shipped_hashes) for model in used)


def shipped_messages(used: tuple[UsedModel, ...], point: "OperatingPoint") -> list[Message]:
    """The notice that a count with shipped models must carry; nothing without them.

    Args:
        used: The models of the count.
        point: The operating point of the weights.
    """
    shipped = [model for model in used if model.shipped]
    if not shipped:
        return []
    about = {model.sha256: model for model in models()}
    sets = dict.fromkeys(name for model in shipped for name in about[str(model.sha256)].trained_on)
    calibration = point.calibration
    if calibration is None:
        calibrated = Message("shipped.not_calibrated")
    else:
        material = Message(f"material.{calibration.material}", {"n": calibration.procedures})
        calibrated = Message("shipped.calibrated", {"material": material})
    names, stills = (", ".join(texts) for texts in ([model.name for model in shipped], sets))
    return [Message("shipped", {"models": names, "sets": stills, "calibrated": calibrated})]
