"""The shipped models: their descriptions in `models.json`, and the check of their files.

The files, their cards (NAME.md) and models.json are next to this module; `.ci/seal-models` writes
them. Nothing is downloaded, and a file whose SHA-256 differs from that in models.json is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from polyplink.core.artefacts import file_key, read_json
from polyplink.core.errors import PolyplinkError, find_named, first_line

DETECTOR = "detector-v1"  # the defaults
ENCODER = "encoder-v1"
FOLDER = Path(__file__).parent
LIST = "models.json"
REINSTALL = 'install polyplink again (pip install --force-reinstall "polyplink[run]")'

Kind = Literal["detector", "encoder"]


@dataclass(frozen=True)
class ShippedModel:
    """A model of the package.

    Attributes:
        name: Its name on the command line.
        kind: "detector" or "encoder".
        file: Name of its file, next to models.json.
        sha256: SHA-256 of the file.
        bytes: Size of the file and, for an encoder, of its graphs.
        title: A description in one line.
        licence: Licence of the file.
        data: The data that it was made from, with authors and licences, a line for each set.
        trained_on: Names of the data sets of annotated images.
        record_sha256: SHA-256 of a detector's record, NAME.json; None for an encoder, whose record
            is in its file.
        graphs_sha256: SHA-256 of an encoder's NAME/config.json, which holds the SHA-256 of its
            graphs; None for a detector.
    """

    name: str
    kind: Kind
    file: str
    sha256: str
    bytes: int
    title: str
    licence: str
    data: tuple[str, ...]
    trained_on: tuple[str, ...]
    record_sha256: str | None = None
    graphs_sha256: str | None = None

    @property
    def path(self) -> Path:
        """The path of the file."""
        return FOLDER / self.file

    @property
    def record_path(self) -> Path:
        """The path of a detector's record."""
        return self.path.with_suffix(".json")

    @property
    def graphs(self) -> Path:
        """The folder with an encoder's graphs, see `encoders.export.ExportedEncoder`."""
        return FOLDER / self.name

    @property
    def card(self) -> str:
        """The model card, in Markdown.

        Raises:
            PolyplinkError: If the card's file is missing.
        """
        path = FOLDER / f"{self.name}.md"
        if not path.is_file():
            raise PolyplinkError(f"the model card {path} is missing", REINSTALL)
        return path.read_text(encoding="utf-8")

    def verify(self) -> None:
        """Refuse the model if one of its files is missing or was changed."""
        digests = {self.path: self.sha256}
        if self.record_sha256 is not None:
            digests[self.record_path] = self.record_sha256
        if self.graphs_sha256 is not None:
            digests[self.graphs / "config.json"] = self.graphs_sha256
        for path, digest in digests.items():
            if not path.is_file():
                raise PolyplinkError(f"the shipped file {path} is missing", REINSTALL)
            status = path.stat()
            if _digest(path, status.st_mtime_ns, status.st_size) != digest:
                raise PolyplinkError(
                    f"{path} is not the file that was shipped: its SHA-256 is another", REINSTALL
                )


@lru_cache
def _digest(path: Path, mtime: int, size: int) -> str:
    """SHA-256 of a file, computed again if its time or size has changed."""
    return file_key(path)


def models() -> tuple[ShippedModel, ...]:
    """All shipped models as models.json describes them, the defaults first.

    Raises:
        PolyplinkError: If models.json is missing or broken.
    """
    path = FOLDER / LIST
    try:
        return tuple(_model(row) for row in read_json(path, REINSTALL))
    except (TypeError, AttributeError) as error:
        raise PolyplinkError(f"{path} is broken ({first_line(error)})", REINSTALL) from None


def _model(row: Mapping[str, Any]) -> ShippedModel:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    return ShippedModel(**values)


def shipped_names(kind: Kind) -> list[str]:
    """Names of the shipped models of a kind."""
    return [model.name for model in models() if model.kind == kind]


def is_shipped(name: Path | str, kind: Kind) -> bool:
    """Whether a name is that of a shipped model; a file of this name takes precedence."""
    return str(name) in shipped_names(kind) and not Path(name).exists()


def shipped_model(name: str) -> ShippedModel:
    """A shipped model by name, with its files checked.

    Raises:
        PolyplinkError: If no model has the name, or one of its files is missing or was changed.

    Example:
        >>> shipped_model(ENCODER).kind
        'encoder'
    """
    model = find_named("shipped model", name, {candidate.name: candidate for candidate in models()})
    model.verify()
    return model
