"""Which simulation a folder holds: `simulation/key.json`, enough to make every picture again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from polyplink import __version__
from polyplink.core.artefacts import content_key, read_json, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.simulate.specs import Preset

TRUTH = "simulation"  # folder of what the release does not have


@dataclass(frozen=True)
class Origin:
    """What a simulated data set was made from.

    Attributes:
        preset: What was made, whole.
        seed: Of the data set.
        device: Type of the device that rendered the frames in the folder ("cpu", "cuda"), whose
            roundings differ; None where there are none.
        polyplink: Version that made it: another one may draw otherwise.
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
        """Make sure that `out` is empty, or is what an earlier run of this simulation left.

        Raises:
            PolyplinkError: If it holds something else.
        """
        path = key_path(out)
        if not path.is_file():
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise PolyplinkError(f"{out} holds something else", "choose an empty folder")
            write_json(path, to_plain(self) | {"key": self.key})
            return
        there = read_json(path)
        if not isinstance(there, Mapping) or there.get("key") != self.key:
            raise PolyplinkError(
                f"{out} holds {_in_words(there)}", "choose another folder, or remove it"
            )


def key_path(out: Path) -> Path:
    """The file that says what a folder was simulated from."""
    return out / TRUTH / "key.json"


def is_simulation(folder: Path) -> bool:
    """Whether a folder holds simulated procedures, whose pictures can be made again."""
    return key_path(folder).is_file()


def read_origin(folder: Path) -> Origin:
    """What a folder was simulated from.

    Raises:
        PolyplinkError: If nothing says it, it is broken, or another version made it.
    """
    there = read_json(key_path(folder))
    made = there.get("polyplink") if isinstance(there, Mapping) else None
    if made != __version__:
        raise PolyplinkError(
            f"{folder} was simulated by polyplink {made}, this is {__version__}, which may draw "
            "other pictures",
            f"install polyplink {made}, or simulate again into another folder",
        )
    try:
        return TypeAdapter(Origin).validate_python(there)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PolyplinkError(f"{key_path(folder)} is broken ({reason})", "simulate again") from None


def at_difficulty(preset: Preset, difficulty: float | None) -> Preset:
    """A preset at another difficulty, which its name then tells; None for its own."""
    if difficulty is None or difficulty == preset.difficulty:
        return preset
    return replace(preset, name=f"{preset.name}@{difficulty:g}", difficulty=float(difficulty))


def _in_words(there: Any) -> str:
    """What the key of another simulation says."""
    if not isinstance(there, Mapping):
        return "a simulation whose key is broken"
    preset = there.get("preset")
    preset = preset if isinstance(preset, Mapping) else {}
    told = {
        "preset": preset.get("name"),
        "seed": there.get("seed"),
        "difficulty": preset.get("difficulty"),
        "frames": preset.get("frames"),
        "annotations": preset.get("annotations"),
        "device": there.get("device"),
        "polyplink": there.get("polyplink"),
    }
    return ", ".join(f"{name} {value}" for name, value in told.items() if value is not None)
