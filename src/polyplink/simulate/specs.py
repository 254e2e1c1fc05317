"""What is asked of the simulator: a preset for a data set, a specification for a procedure."""

from dataclasses import dataclass
from typing import Literal

from polyplink.core.errors import PolyplinkError
from polyplink.data import positive_frames

# Boxes beyond one per frame with a box in REAL-Colon: 351,264 boxes on 342,109 frames (Biffi et
# al., Scientific Data 2024, 11:539).
SURPLUS = 9155 / 342109


@dataclass(frozen=True)
class PolypSpec:
    """What the tables say of one polyp.

    Attributes:
        size_mm: Largest diameter.
        site: Segment of the colon, normalised.
        histology: The data set's own word.
        histology_class: AD, HP, SSL, TSA, OTHER or NO POLYP.
        visible_frames: Frames with a box of it, as the course should give them.
    """

    size_mm: float
    site: str
    histology: str
    histology_class: str
    visible_frames: int


@dataclass(frozen=True)
class PairSpec:
    """Two polyps, by index, that lie side by side, and how many frames show both."""

    first: int
    second: int
    frames: int


@dataclass(frozen=True)
class ProcedureSpec:
    """What the tables say of one procedure; polyps in the order in which they are visited.

    Attributes:
        procedure_id: Its name.
        n_frames: Frames in all.
        fps: Frames per second.
        width: Frame width, pixels.
        height: Frame height, pixels.
        brand: Of the endoscope: "Olympus" or "Fujifilm".
        age: Of the patient, years.
        sex: "female" or "male".
        bbps: Boston bowel preparation scale, 0 to 9.
        polyps: Its polyps.
        pairs: Those of them that are seen in one view.
    """

    procedure_id: str
    n_frames: int
    fps: float
    width: int
    height: int
    brand: str
    age: int
    sex: str
    bbps: float
    polyps: tuple[PolypSpec, ...]
    pairs: tuple[PairSpec, ...] = ()

    @property
    def boxed_frames(self) -> int:
        """Frames with at least one box."""
        boxes = sum(polyp.visible_frames for polyp in self.polyps)
        return boxes - sum(pair.frames for pair in self.pairs)


@dataclass(frozen=True)
class Preset:
    """What a simulated data set holds; ranges are inclusive.

    Attributes:
        name: Name of the preset.
        polyps: Procedure id and its number of polyps, in order.
        width: Frame width of drawn procedures, pixels, even; released ones keep their own.
        height: Frame height, likewise.
        fps: Frames per second, likewise.
        long_views: How often a polyp is looked at for long, beside views that show two polyps.
        long_frames: Frames of such a look.
        short_views: How often it is only glimpsed.
        short_frames: Frames of a glimpse.
        released: The procedures and polyps are those of REAL-Colon's released tables, by name;
            else they are drawn from the rows of these tables.
        published_looks: Polyps are seen as often and as long as is published, see `course.laws`;
            else as the four ranges say.
        shorter: How many times shorter than released a procedure is.
        fullest: Largest share of a procedure's frames with a box: one that is fuller is made
            longer, and a drawn one is as long as this asks for.
        insertion: Share of a procedure before withdrawal begins.
        pair_share: Share of the procedures with two polyps or more in which two polyps are seen
            in one view.
        close_share: Share of them in which two are looked at in turn, within a minute.
        return_share: Share of them in which an earlier polyp is gone back to, and removed only
            then, after another one was.
        surplus: Boxes beyond one per frame with a box, of the whole set (published looks only).
        difficulty: 0 (polyps unlike each other, steady views) to 1 (alike, changing views).
        frames: Which frames are written: all, those with a box, or none.
        annotations: Written as folders of files, as archives as released, or not at all.

    Raises:
        PolyplinkError: If a number is out of its range.
    """

    name: str
    polyps: tuple[tuple[str, int], ...]
    width: int = 1352
    height: int = 1080
    fps: float = 25.0
    long_views: tuple[int, int] = (4, 7)
    long_frames: tuple[int, int] = (30, 35)
    short_views: tuple[int, int] = (0, 2)
    short_frames: tuple[int, int] = (6, 20)
    released: bool = False
    published_looks: bool = False
    shorter: float = 1.0
    fullest: float = 0.72
    insertion: tuple[float, float] = (1 / 3, 1 / 2)
    pair_share: float = 0.4
    close_share: float = 0.3
    return_share: float = 0.3
    surplus: float = SURPLUS
    difficulty: float = 0.5
    frames: Literal["all", "boxed", "none"] = "all"
    annotations: Literal["folders", "archives", "none"] = "folders"

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_ranges()
        self._check_shares()
        self._check_names()

    def _refuse(self, what: str, mend: str) -> PolyplinkError:
        return PolyplinkError(f"preset {self.name}: {what}", mend)

    def _check_sizes(self) -> None:
        for name in ("width", "height"):
            value = getattr(self, name)
            if value < 16 or value % 2:
                raise self._refuse(f"{name} is {value}", "give an even number from 16")

    def _check_ranges(self) -> None:
        for name in ("long_views", "long_frames", "short_views", "short_frames"):
            low, high = getattr(self, name)
            if not 0 <= low <= high or (name.endswith("frames") and low < 1):
                raise self._refuse(
                    f"{name} is {low} to {high}", "give a range, the smaller number first"
                )
        low, high = self.insertion
        if not 0 <= low <= high <= 0.6:
            raise self._refuse(f"insertion is {low} to {high}", "give a range within 0 to 0.6")
        if any(count < 0 for _, count in self.polyps):
            raise self._refuse("fewer than 0 polyps", "give counts from 0")

    def _check_shares(self) -> None:
        for name in ("pair_share", "close_share", "return_share", "surplus", "difficulty"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise self._refuse(f"{name} is {value}", "give a value in [0, 1]")
        if not 0 < self.fullest <= 1:
            raise self._refuse(f"fullest is {self.fullest}", "give a share above 0, 1 at most")
        if not self.shorter >= 1:
            raise self._refuse(f"shorter is {self.shorter}", "give 1 or more")

    def _check_names(self) -> None:
        if self.released:
            known = set(positive_frames()["video_id"])
            strange = [name for name, _ in self.polyps if name not in known]
            if strange:
                raise self._refuse(
                    f"{strange[0]} is no procedure of REAL-Colon", "name released procedures"
                )
