"""Presets of simulated data sets, and the settings file that is stored in a simulated folder.

The settings, `simulation/key.json`, suffice to render every frame of the folder again.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from polyplink import __version__
from polyplink.core.artefacts import content_key, read_json, read_plain, to_plain, write_json
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, SHARE, Range, check_ranges
from polyplink.data.protocols import lesion_info, positive_frames, video_info

# Boxes beyond one per frame with a box in REAL-Colon: 351,264 boxes on 342,109 frames (Biffi et
# al., Scientific Data 2024, 11:539).
SURPLUS = 9155 / 342109
FOLDER = "simulation"  # subfolder for files that REAL-Colon's release does not have


@dataclass(frozen=True)
class Preset:
    """The contents of a simulated data set; ranges are inclusive.

    Attributes:
        name: Name of the preset.
        polyps: Procedure id and its number of polyps, in order.
        width: Frame width in pixels, even; released procedures keep the released one.
        height: Frame height in pixels; released procedures keep the released one.
        fps: Frames per second; released procedures keep the released ones.
        long_views: How many long views a polyp has, beside views that show two polyps.
        long_frames: Frames of a long view.
        short_views: How many short views a polyp has.
        short_frames: Frames of a short view.
        released: Use the procedures and polyps of REAL-Colon's released tables, by name;
            otherwise sample them from the rows of these tables.
        published_looks: Number and length of views follow published statistics, see
            `course.timeline`; otherwise the four ranges above.
        shorter: How many times shorter than released a procedure is.
        fullest: Largest share of a procedure's frames with a box: the procedure is lengthened
            until this holds, and a sampled one is exactly as long as this requires.
        insertion: Share of a procedure before withdrawal begins.
        pair_share: Share of the procedures with at least two polyps in which two polyps appear
            in one view.
        close_share: Share of the same procedures in which two polyps are viewed alternately
            within a minute.
        return_share: Share of the same procedures in which the camera returns to an earlier polyp
            after another one was removed, and removes it only then.
        surplus: Boxes beyond one per frame with a box, of the whole set (published looks only).
        difficulty: 0 (polyps look different, steady views) to 1 (look alike, changing views).
        frames: Which frames are written: all, those with a box, or none.
        annotations: Written as folders of XML files, as archives as released, or not at all.

    Raises:
        PolyplinkError: If a number is out of its range.
    """

    name: str
    polyps: tuple[tuple[str, int], ...]
    width: Annotated[int, Range(16)] = 1352
    height: Annotated[int, Range(16)] = 1080
    fps: float = 25.0
    long_views: tuple[int, int] = (4, 7)
    long_frames: tuple[int, int] = (30, 35)
    short_views: tuple[int, int] = (0, 2)
    short_frames: tuple[int, int] = (6, 20)
    released: bool = False
    published_looks: bool = False
    shorter: Annotated[float, AT_LEAST_ONE] = 1.0
    fullest: Annotated[float, Range(0, 1, above=True)] = 0.72
    insertion: tuple[float, float] = (1 / 3, 1 / 2)
    pair_share: Annotated[float, SHARE] = 0.4
    close_share: Annotated[float, SHARE] = 0.3
    return_share: Annotated[float, SHARE] = 0.3
    surplus: Annotated[float, SHARE] = SURPLUS
    difficulty: Annotated[float, SHARE] = 0.5
    frames: Literal["all", "boxed", "none"] = "all"
    annotations: Literal["folders", "archives", "none"] = "folders"

    def __post_init__(self) -> None:
        check_ranges(self.name, self)
        spans = {"long_frames": AT_LEAST_ONE, "short_frames": AT_LEAST_ONE}
        spans |= {"long_views": NOT_NEGATIVE, "short_views": NOT_NEGATIVE}
        for name, allowed in (spans | {"insertion": Range(0, 0.6)}).items():
            low, high = getattr(self, name)
            holds = low <= high and allowed.holds(low) and allowed.holds(high)
            expected = f"the smaller number first, each {allowed}"
            self._require(holds, f".{name} is {low} to {high}", expected)
        even = self.width % 2 == self.height % 2 == 0
        self._require(even, f" has frames of {self.width} x {self.height} pixels", "even numbers")
        counted = all(count >= 0 for _, count in self.polyps)
        self._require(counted, ".polyps has fewer than 0 polyps", "counts from 0")
        if self.released:
            released_names = set(positive_frames()["video_id"])
            unknown = {name for name, _ in self.polyps if released_id(name) not in released_names}
            problem = f": {min(unknown, default='')} is not a procedure of REAL-Colon"
            self._require(not unknown, problem, "the names of released procedures")

    def _require(self, holds: bool, problem: str, expected: str) -> None:
        if not holds:
            raise PolyplinkError(f"{self.name}{problem}", f"give {expected}")

    def at_difficulty(self, difficulty: float | None) -> "Preset":
        """This preset at another difficulty, which becomes part of its name; None: unchanged."""
        if difficulty is None or difficulty == self.difficulty:
            return self
        return replace(self, name=f"{self.name}@{difficulty:g}", difficulty=float(difficulty))

    def repeated(self, times: int) -> "Preset":
        """This preset with `times` copies of each procedure, each copy with its own random numbers.

        The studies of the copies continue the count: after 001 to 004 come 005 to 008, so that a
        copy is in the same part (`train`, `eval`, `negative`) as its original. The preset's name
        does not change: weights record the data sets they were trained on by name, and the
        preset's name is part of it.

        Raises:
            PolyplinkError: If `times` is below 1, or too many for three digits, or a procedure is
                not named SSS-VVV with a study of 001 to 004.

        Example:
            >>> [name for name, _ in smoke().repeated(2).polyps][3:6]
            ['001-010', '005-001', '005-002']
        """
        if times == 1:
            return self
        max_times = 999 // _STUDIES
        self._require(
            1 <= times <= max_times, f" {times} times over", f"--times from 1 to {max_times}"
        )
        not_released = [name for name, _ in self.polyps if released_id(name) != name]
        problem = f": {min(not_released, default='')} cannot be repeated"
        self._require(
            not not_released, problem, f"names SSS-VVV with studies 001 to {_STUDIES:03d}"
        )
        polyps = tuple(
            (f"{int(name[:3]) + _STUDIES * copy:03d}{name[3:]}", count)
            for copy in range(times)
            for name, count in self.polyps
        )
        return replace(self, polyps=polyps)


_STUDIES = 4  # of REAL-Colon
_NAME = re.compile(r"([0-9]{3})(-[0-9]{3})")


def released_id(procedure_id: str) -> str:
    """The released procedure behind a procedure id of `Preset.repeated`; "" for other names.

    Example:
        >>> released_id("002-013"), released_id("010-013"), released_id("mine")
        ('002-013', '002-013', '')
    """
    match = _NAME.fullmatch(procedure_id)
    if match is None or match[1] == "000":
        return ""
    return f"{(int(match[1]) - 1) % _STUDIES + 1:03d}{match[2]}"


# Four studies of ten, eight of each to train on. Most procedures have three polyps; 001-006 has
# none and 002-010 a single one, as happens in life.
_TINY_COUNTS = {
    "001": (3, 2, 4, 3, 3, 0, 2, 3, 3, 2),
    "002": (3, 3, 2, 3, 4, 3, 3, 2, 3, 1),
    "003": (2, 3, 3, 4, 3, 2, 3, 3, 4, 3),
    "004": (3, 4, 3, 2, 3, 3, 2, 3, 2, 3),
}


@cache
def _released_counts() -> tuple[tuple[str, int], ...]:
    """All 60 procedures and their rows in `lesion_info.csv` (003-012 has three, not two)."""
    lesions = dict(lesion_info().group_by("unique_video_name").len().iter_rows())
    names = video_info()["unique_video_name"].sort()
    return tuple((name, lesions.get(name, 0)) for name in names)


def real_colon_sim() -> Preset:
    """REAL-Colon at full size, from its tables: 60 procedures, 132 polyps, 2.76 million frames.

    Lengths, rates, brands, frame sizes, polyps and frames with a box are those of the release;
    the seed decides the rest: how a procedure's frames with a box are divided among its polyps,
    when each is seen, and what everything looks like. Frames are not written: crops are rendered
    on demand.
    """
    return Preset(
        "real-colon-sim",
        _released_counts(),
        released=True,
        published_looks=True,
        fullest=1.0,
        pair_share=0.5,
        frames="none",
        annotations="none",
    )


def small() -> Preset:
    """The same 60 procedures and 132 polyps in miniature, for training within minutes.

    Procedures are about 15 times shorter; a polyp has about 4 views of 30 to 60 frames
    and some short ones. Frame sizes are those of the release.
    """
    return Preset(
        "small",
        _released_counts(),
        long_views=(3, 5),
        long_frames=(30, 60),
        short_views=(2, 6),
        short_frames=(1, 20),
        released=True,
        shorter=15.0,
        fullest=0.4,
        frames="none",
        annotations="none",
    )


def tiny() -> Preset:
    """The demo's size: 40 procedures, 110 polyps, about 31,000 frames of 96 x 84 pixels."""
    polyps = tuple(
        (f"{study}-{video:03d}", count)
        for study, counts in _TINY_COUNTS.items()
        for video, count in enumerate(counts, start=1)
    )
    return Preset("tiny", polyps, width=96, height=84, insertion=(0.02, 0.06))


def smoke() -> Preset:
    """The smallest set that every stage can run on: 4 procedures of 2 polyps, 64 x 56 pixels."""
    return Preset(
        "smoke",
        (("001-001", 2), ("001-002", 2), ("001-009", 2), ("001-010", 2)),
        width=64,
        height=56,
        long_views=(3, 3),
        long_frames=(30, 32),
        short_views=(0, 1),
        short_frames=(6, 10),
        fullest=0.78,
        insertion=(0.02, 0.06),
    )


PRESETS: Mapping[str, Callable[[], Preset]] = {
    "tiny": tiny,
    "smoke": smoke,
    "small": small,
    "real-colon-sim": real_colon_sim,
}


# The formats of a data set: a folder of tables, archives as released, or the released layout with
# frames.
WRITINGS: Mapping[str, Callable[[Preset], Preset]] = {
    "tables": lambda p: replace(p, frames="none", annotations="none"),
    "archives": lambda p: replace(p, frames="none", annotations="archives"),
    "frames": lambda p: replace(
        p, frames="boxed" if p.frames == "none" else p.frames, annotations="folders"
    ),
}


def preset(name: str) -> Preset:
    """Get a preset by name.

    Raises:
        PolyplinkError: If no preset has this name; the message suggests the nearest name.

    Example:
        >>> preset("smoke").polyps[0]
        ('001-001', 2)
    """
    return find_named("preset", name, PRESETS)()


# --- The settings that a folder was simulated from --------------------------------------------


@dataclass(frozen=True)
class SimulationSettings:
    """Provenance of a simulated data set.

    Attributes:
        preset: The whole preset.
        seed: Seed of the data set.
        device: Type of the device that rendered the stored frames ("cpu", "cuda"), because
            rounding differs between them; None if no frames are stored.
        polyplink: Version of polyplink that simulated it; other versions may render differently.
    """

    preset: Preset
    seed: int
    device: str | None
    polyplink: str = __version__

    @classmethod
    def of(cls, preset: Preset, seed: int, device: str) -> "SimulationSettings":
        """The settings of a data set with its frames, if it has any, rendered on `device`."""
        return cls(preset, seed, device.partition(":")[0] if preset.frames != "none" else None)

    @property
    def key(self) -> str:
        """Content key of all settings."""
        return content_key("simulation", self)

    def check(self, out: Path) -> bool:
        """Whether `out` holds a run of this simulation, finished or not; False if it is empty.

        Raises:
            PolyplinkError: If it holds something else.
        """
        path = key_path(out)
        if not path.is_file():
            run_folder = path.parent  # .part files of a killed run count as empty
            strangers = (p for p in out.rglob("*") if p.parent != run_folder or p.suffix != ".part")
            if out.is_file() or any(stranger != run_folder for stranger in strangers):
                raise PolyplinkError(f"{out} holds something else", "choose an empty folder")
            return False
        stored = read_json(path)
        stored = stored if isinstance(stored, Mapping) else {}
        if stored.get("key") != self.key:
            preset = stored.get("preset")
            preset = preset if isinstance(preset, Mapping) else {}
            values = {"preset": preset.get("name"), "seed": stored.get("seed")}
            values |= {name: preset.get(name) for name in ("difficulty", "frames", "annotations")}
            values |= {name: stored.get(name) for name in ("device", "polyplink")}
            values["procedures"] = len(preset.get("polyps") or ()) or None
            words = ", ".join(f"{name} {v}" for name, v in values.items() if v is not None)
            raise PolyplinkError(
                f"{out} holds {words or 'a simulation with a broken key'}",
                "choose another folder, or remove it",
            )
        return True

    def claim(self, out: Path) -> None:
        """Check that `out` is empty or holds a run of this simulation, and write the settings.

        Raises:
            PolyplinkError: If it holds something else.
        """
        if not self.check(out):
            write_json(key_path(out), to_plain(self) | {"key": self.key})


def key_path(out: Path) -> Path:
    """The file that holds the settings of a simulated folder."""
    return out / FOLDER / "key.json"


def is_simulation(folder: Path) -> bool:
    """Whether a folder holds simulated procedures, with pictures that can be rendered again."""
    return key_path(folder).is_file()


def read_settings(folder: Path) -> SimulationSettings:
    """The settings that a folder was simulated from.

    Raises:
        PolyplinkError: If they are missing or broken, or another version wrote them.
    """
    stored = read_json(key_path(folder))
    version = stored.get("polyplink") if isinstance(stored, Mapping) else None
    if version != __version__:
        raise PolyplinkError(
            f"{folder} was simulated by polyplink {version}, this is {__version__}, which may draw "
            "other pictures",
            f"install polyplink {version}, or simulate again into another folder",
        )
    problem = f"{key_path(folder)} is broken"
    return read_plain(SimulationSettings, stored, problem, "simulate again")
