"""Simulating a data set by the name of its preset: what is written of it, and what to look at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from polyplink.core.errors import find_named
from polyplink.data import DataSet
from polyplink.simulate.film import check_film
from polyplink.simulate.origin import at_difficulty
from polyplink.simulate.presets import Preset, preset
from polyplink.simulate.preview import write_preview
from polyplink.simulate.suite import simulate

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""

PREVIEW = "preview"  # folder of what a person looks at


def _silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


def _tables(preset: Preset) -> Preset:
    return replace(preset, frames="none", annotations="none")


def _archives(preset: Preset) -> Preset:
    return replace(preset, frames="none", annotations="archives")


def _frames(preset: Preset) -> Preset:
    frames = "boxed" if preset.frames == "none" else preset.frames
    return replace(preset, frames=frames, annotations="folders")


# What a data set is written as: a folder of tables, the released archives, the released layout
# with frames.
WRITINGS = {"tables": _tables, "archives": _archives, "frames": _frames}


@dataclass(frozen=True)
class Simulated:
    """A simulated data set, where it lies, and its preview where one was asked for."""

    out: Path
    data: DataSet
    preview: Mapping[str, Path]

    def as_dict(self) -> dict[str, object]:
        """Its numbers, JSON-ready."""
        return {
            "out": str(self.out),
            "procedures": self.data.procedures.height,
            "polyps": self.data.polyps.height,
            "frames": int(self.data.procedures["n_frames"].sum()),
            "boxes": self.data.detections.height,
            "preview": {name: str(path) for name, path in self.preview.items()},
        }


def simulate_data(
    name: str,
    out: Path,
    *,
    seed: int = 0,
    difficulty: float | None = None,
    write: str | None = None,
    with_preview: bool = False,
    device: str = "cpu",
    workers: int = 2,
    progress: Progress = _silent,
) -> Simulated:
    """Make the data set of a preset.

    Args:
        name: Of the preset.
        out: Folder to write.
        seed: Same seed, same bytes.
        difficulty: From 0 to 1; None for the preset's own.
        write: A key of `WRITINGS`; None for the preset's own.
        with_preview: Render a contact sheet and a short film into `out`/preview, too.
        device: Where pictures are rendered, as torch names it.
        workers: Worker processes.
        progress: Told of procedures and pictures.

    Raises:
        PolyplinkError: If a name is unknown, a value out of range, `out` holds something else, or
            a preview is asked for and PyAV is not installed.
    """
    chosen = at_difficulty(preset(name), difficulty)
    if write is not None:
        chosen = find_named("way to write", write, WRITINGS)(chosen)
    if with_preview:
        check_film()  # before hours of work that would end in a refusal
    made = simulate(
        out,
        chosen,
        seed,
        device=device,
        workers=workers,
        progress=partial(progress, "procedures"),
    )
    preview: dict[str, Path] = {}
    if with_preview:
        sheet, film = write_preview(
            out / PREVIEW, chosen, seed, device=device, progress=partial(progress, "preview")
        )
        preview = {"sheet": sheet, "film": film}
    return Simulated(out, made, preview)
