"""The settings a folder was simulated from, `simulation/key.json`: enough to render it again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from polyplink import __version__
from polyplink.core.artefacts import content_key, read_json, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.simulate.presets import Preset

FOLDER = "simulation"  # holds everything that a release does not have


@dataclass(frozen=True)
class SimulationSettings:
    """What a simulated data set was made from.

    Attributes:
        preset: The whole preset.
        seed: Of the data set.
        device: Type of the device that rendered the frames in the folder ("cpu", "cuda"), as they
            round differently; None where no frames are stored.
        polyplink: Version that made it: another one may draw other pictures.
    """

    preset: Preset
    seed: int
    device: str | None
    polyplink: str = __version__

    @property
    def key(self) -> str:
        """Content key of all of it."""
        return content_key("simulation", self)

    def claim(self, out: Path) -> None:
        """Check that `out` is empty or holds an unfinished run of this simulation, and mark it.

        Raises:
            PolyplinkError: If it holds something else.
        """
        path = key_path(out)
        if not path.is_file():
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise PolyplinkError(f"{out} holds something else", "choose an empty folder")
            write_json(path, to_plain(self) | {"key": self.key})
            return
        found = read_json(path)
        if not isinstance(found, Mapping) or found.get("key") != self.key:
            raise PolyplinkError(
                f"{out} holds {_in_words(found)}", "choose another folder, or remove it"
            )


def key_path(out: Path) -> Path:
    """The file that holds the settings of a simulated folder."""
    return out / FOLDER / "key.json"


def is_simulation(folder: Path) -> bool:
    """Whether a folder holds simulated procedures, whose pictures can be rendered again."""
    return key_path(folder).is_file()


def read_settings(folder: Path) -> SimulationSettings:
    """The settings that a folder was simulated from.

    Raises:
        PolyplinkError: If they are missing or broken, or another version wrote them.
    """
    found = read_json(key_path(folder))
    version = found.get("polyplink") if isinstance(found, Mapping) else None
    if version != __version__:
        raise PolyplinkError(
            f"{folder} was simulated by polyplink {version}, this is {__version__}, which may draw "
            "other pictures",
            f"install polyplink {version}, or simulate again into another folder",
        )
    try:
        return TypeAdapter(SimulationSettings).validate_python(found)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PolyplinkError(f"{key_path(folder)} is broken ({reason})", "simulate again") from None


def _in_words(found: Any) -> str:
    """The settings of another simulation, for a message."""
    if not isinstance(found, Mapping):
        return "a simulation whose key is broken"
    preset = found.get("preset")
    preset = preset if isinstance(preset, Mapping) else {}
    values = {"preset": preset.get("name"), "seed": found.get("seed")}
    values |= {name: preset.get(name) for name in ("difficulty", "frames", "annotations")}
    values |= {name: found.get(name) for name in ("device", "polyplink")}
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
