"""The annotated types of arguments and options that several verbs share.

A parameter's type, help text and range are in its annotation and nowhere else (`cli.command`
builds the commands from them). For a path, Python callers may also pass a string.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from typer import Argument, Option

from polyplink.core import messages
from polyplink.core.parts import TRACKERS
from polyplink.core.registry import Registry
from polyplink.models.shipped import DETECTOR, ENCODER

StrPath = str | Path

DETECTOR_NAMES = (
    f"ONNX file; FILE.py:NAME, a function of an image; a plugin's name; or {DETECTOR}, which ships "
    "with polyplink"
)
RECIPE = "Name of a recipe (ntssl, sfe, tpc, ...), or FILE.py:NAME for your own."
Data = Annotated[StrPath, Argument(help="Data folder that `polyplink import` wrote.")]
Weights = Annotated[
    StrPath,
    Argument(help=f"Weights: a file, a folder of `train` or `export`, or a name ({ENCODER})."),
]
Out = Annotated[StrPath, Option("--out", "-o", help="Folder to write.")]
OutOfSource = Annotated[
    StrPath | None,
    Option("--out", "-o", help="Folder to write; by default COMMAND/NAME, after what is counted."),
]
Replace = Annotated[bool, Option(help="Replace the count of another recording.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
Workers = Annotated[int, Option(min=1, help="Worker processes or threads.")]
Part = Annotated[str | None, Option(help="Part of the data set; all by default.")]
Alarms = Annotated[
    Literal["drop", "keep"],
    Option(
        help="Leave out (drop) or count (keep) tracklets that the weights reject as false alarms."
    ),
]
Purpose = Annotated[
    Literal["count", "link", "published"],
    Option(
        help="Link for the right number of polyps, few wrong links, or an FPR near 0.05 (the "
        "papers' rule)."
    ),
]
Video = Annotated[
    bool, Option(help="Also write a video of each procedure with boxes and polyps drawn.")
]
Language = Annotated[messages.Language, Option(help="Language of the report.")]
Sets = Annotated[Sequence[str], Option("--set", help="Change a field of the recipe: NAME=VALUE.")]
HistologyMap = Annotated[
    str | None,
    Option(
        metavar="NAME|FILE",
        help="Histology map for adenoma: papers (the default), tsa-adenoma, or a JSON file.",
    ),
]


def names_of(module: str, attribute: str) -> Callable[[str], list[str]]:
    """Shell completion with the names in a module's table; the module is imported on completion.

    Args:
        module: The module.
        attribute: Name of a registry, a mapping by name or a sequence of names, or of a function
            returning one of the last two.
    """

    def complete(incomplete: str) -> list[str]:
        table = getattr(import_module(module), attribute)
        if isinstance(table, Registry):
            names = table.names()  # those of plugins too
        else:
            names = table() if callable(table) else table
        return [str(name) for name in names if str(name).startswith(incomplete)]

    return complete


RECIPES = names_of("polyplink.recipes.by_name", "RECIPES")
CLUSTERER_NAMES = names_of("polyplink.core.parts", "CLUSTERERS")
FORMAT_NAMES = names_of("polyplink.core.parts", "FORMATS")


class TrackletOptions(TypedDict, total=False):
    """Settings of tracklets; defaults come from the detector or the weights.

    Names are those of the fields of `tracklets.settings.PrepareSettings` and its `tracks`.
    """

    min_length: Annotated[
        int | None, Option(min=1, help="Fewest boxes of a tracklet of a known polyp [30].")
    ]
    max_gap: Annotated[
        int | None,
        Option(min=1, help="Known polyps: largest step in frames within a tracklet [1]."),
    ]
    min_iou: Annotated[
        float | None,
        Option(min=0, max=1, help="Known polyps: smallest IoU of consecutive boxes [0.1]."),
    ]
    min_seconds: Annotated[
        float | None, Option(min=0, help="A detector's boxes: shortest track, seconds [0.5].")
    ]
    bridge: Annotated[
        float | None,
        Option(min=0, help="A detector's boxes: longest gap within a track, seconds [0.7]."),
    ]
    high: Annotated[
        float | None, Option(min=0, max=1, help="Score from which a box starts a track [0.4].")
    ]
    low: Annotated[
        float | None, Option(min=0, max=1, help="Score from which a box continues a track [0.1].")
    ]
    nested: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Largest share of a box that starts a track within the box of another track [1].",
        ),
    ]
    tracker: Annotated[
        str | None,
        Option(
            help=f"Tracker of a detector's boxes: {', '.join(TRACKERS)}, or a plugin's [damped].",
            autocompletion=names_of("polyplink.core.parts", "TRACKERS"),
        ),
    ]
    stride: Annotated[
        int | None, Option(min=1, help="One of this many boxes of a tracklet becomes a crop [4].")
    ]


Source = Annotated[
    StrPath, Argument(help="A video, or a folder of videos or images; a data folder.")
]
DetectorName = Annotated[
    str | None,
    Option(
        help=f"{DETECTOR_NAMES} [the default]; or sim:good, sim:gi-genius, sim:shifted or "
        "sim:misses-15: a simulated one, for a data folder with annotated boxes."
    ),
]
WeightsOption = Annotated[
    StrPath, Option(help="Weights file, a folder `polyplink train` wrote, or a name.")
]
Fps = Annotated[float | None, Option(min=0.1, help="Frames per second, if not in the recording.")]
Seed = Annotated[int, Option(min=0, help="Seed of a simulated detector.")]
CountedFolder = Annotated[StrPath, Argument(help="Folder that `polyplink run` or `count` wrote.")]
MovedData = Annotated[
    StrPath | None, Option("--data", help="Data folder that was counted, if it was moved.")
]
MaskOverlay = Annotated[
    Sequence[str],
    Option(
        help="Black in every picture: LEFT,TOP,WIDTH,HEIGHT in pixels of the recording, or "
        "`field`: the dark border around the endoscopic image. Repeatable.",
    ),
]
DetectorFunction = Callable[..., Any] | None
