"""Arguments and options that several verbs share: their annotated types, and checks of values.

A parameter's type, help text and range are in its annotation and nowhere else (`cli.command`
builds the commands from them). For a path, Python callers may also pass a string.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, TypedDict

from typer import Argument, Option

from polyplink.core import messages
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import TRACKERS, simulated_preset
from polyplink.models.shipped import DETECTOR, ENCODER
from polyplink.tracklets.settings import OF_KNOWN_POLYPS

StrPath = str | Path

DETECTOR_HELP = (
    f"ONNX file; FILE.py:NAME, a function of an image; a plugin's name; or {DETECTOR}, which ships "
    "with polyplink"
)
NO_TRACKLETS = "no tracklets: `polyplink doctor` lists options that give some"
RECIPE_HELP = "Name of a recipe (ntssl, sfe, tpc, ...), or FILE.py:NAME for your own."
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
ReplaceBoxes = Annotated[bool, Option(help="Replace the data folder of another source.")]
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


def names_of(path: str) -> Callable[[str], list[str]]:
    """Shell completion with names that are imported when they are completed.

    Args:
        path: "module:object" of a mapping by name, a sequence of names, or a function of these.
    """

    def complete(incomplete: str) -> list[str]:
        names = resolve_name(path)
        if callable(names):
            names = names()
        return [str(name) for name in names if str(name).startswith(incomplete)]

    return complete


complete_recipes = names_of("polyplink.recipes.by_name:RECIPES")
complete_clusterers = names_of("polyplink.core.parts:CLUSTERERS.names")
complete_formats = names_of("polyplink.core.parts:FORMATS.names")


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
        float | None,
        Option(
            min=0,
            help="A detector's boxes: shortest track, seconds [the detector's, or 0.5]; 0: all.",
        ),
    ]
    bridge: Annotated[
        float | None,
        Option(min=0, help="A detector's boxes: longest gap within a track, seconds [0.7]."),
    ]
    high: Annotated[
        float | None,
        Option(
            min=0, max=1, help="Score from which a box starts a track [the detector's, or 0.4]."
        ),
    ]
    low: Annotated[
        float | None,
        Option(
            min=0, max=1, help="Score from which a box continues a track [the detector's, or 0.1]."
        ),
    ]
    nested: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Largest share of a box in a track within the box of another track "
            "[the detector's, or 1].",
        ),
    ]
    tracker: Annotated[
        str | None,
        Option(
            help=f"Tracker of a detector's boxes: {', '.join(TRACKERS)}, or a plugin's [damped].",
            autocompletion=names_of("polyplink.core.parts:TRACKERS.names"),
        ),
    ]
    stride: Annotated[
        int | None, Option(min=1, help="One of this many boxes of a tracklet becomes a crop [4].")
    ]


Source = Annotated[
    StrPath,
    Argument(
        help="A video, a playlist (.m3u) of the files of one recording, or a folder of videos or "
        "images; a data folder."
    ),
]
DetectorName = Annotated[
    str | None,
    Option(
        help=f"{DETECTOR_HELP} [the default]; or sim:good, sim:gi-genius, sim:shifted or "
        "sim:misses-15: a simulated one, for a data folder with annotated boxes."
    ),
]
WeightsOption = Annotated[
    StrPath, Option(help="Weights file, a folder `polyplink train` wrote, or a name.")
]
Fps = Annotated[float | None, Option(min=0.1, help="Frames per second, if not in the recording.")]
Seed = Annotated[int, Option(min=0, help="Seed of a simulated detector.")]
IndexFolder = Annotated[StrPath, Option("--index", help="Folder of the index.")]
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


def check_inputs(
    weights: Path | None = None,
    data: Path | None = None,
    parts: Sequence[str | None] = (),
    device: str | None = None,
    truth: Path | None = None,
) -> None:
    """Check that arguments exist, before a verb imports torch, which takes seconds.

    Args:
        weights: File, folder or name.
        data: Data folder.
        parts: Parts of the data set.
        device: Name of a device. A GPU is refused if torch is built without CUDA; the verb itself
            checks whether the device exists.
        truth: Data folder of annotated boxes.

    Raises:
        PolyplinkError: If an argument is missing or malformed.
    """
    if weights is not None:
        from polyplink.encoders.weights import read_record, weights_path

        read_record(weights_path(weights))
    if device is not None:
        from polyplink.encoders.device import check_device

        check_device(device)
        with suppress(PackageNotFoundError):  # importing torch reports that it is missing
            if device not in {"auto", "cpu"} and version("torch").endswith("+cpu"):
                raise PolyplinkError(
                    f"no device {device!r} here (torch {version('torch')} is built without CUDA)",
                    "use --device cpu or auto, or install torch for CUDA",
                )
    from polyplink.data.protocols import read_splits
    from polyplink.data.tables import check_folder, read_data

    if truth is not None:
        check_folder(truth)
    if data is not None:
        check_folder(data)
        own_parts = read_splits(data)
        for part in parts:
            if part not in (None, "all", *own_parts):
                read_data(data).part(part)


def refuse_folder_of_weights(weights: Path, out: Path) -> None:
    """Refuse an output folder in which new weights would replace those that they are made of.

    Args:
        weights: The file of the weights.
        out: The output folder.
    """
    if weights.parent.resolve() == out.resolve():
        raise PolyplinkError(
            f"{out} holds the weights themselves, which would be replaced", "name another --out"
        )


def stated_options(values: Mapping[str, Any]) -> str:
    """The options that a user stated, as typed, from the values of parameters; None if left out.

    Example:
        >>> stated_options({"min_length": 8, "high": None, "stride": 2})
        '--min-length and --stride'
    """
    stated = [name for name, value in values.items() if value is not None]
    return " and ".join(f"--{name.replace('_', '-')}" for name in stated)


def refuse_unused(
    detector: str | None, seed: int, tracklets: Mapping[str, Any], *, known_polyps: bool = False
) -> None:
    """Refuse options without effect on the boxes that a command reads or detects.

    Args:
        detector: Name of the detector.
        seed: Seed of a simulated detector.
        tracklets: Options of tracklets, see `TrackletOptions`.
        known_polyps: Whether polyps of the boxes may be known.

    Raises:
        PolyplinkError: If an option has no effect.
    """
    if seed and simulated_preset(detector) is None:
        raise PolyplinkError("--seed is for simulated detectors (sim:good ...)", "leave it out")
    unused = stated_options({name: tracklets.get(name) for name in OF_KNOWN_POLYPS})
    if unused and not known_polyps:
        raise PolyplinkError(
            f"{unused}: only for annotated boxes of known polyps, and there are none here",
            "leave it out; --min-seconds, --bridge, --high and --low form tracks of other boxes",
        )


def named_files(option: str, pairs: Sequence[str]) -> dict[str, Path]:
    """Files by name, from the NAME=FILE values of a repeated option.

    Raises:
        PolyplinkError: If a value has no "=", or two have one name.

    Example:
        >>> named_files("--weights", ["ntssl=run/weights.safetensors"])
        {'ntssl': PosixPath('run/weights.safetensors')}
    """
    files = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            raise PolyplinkError(f"{option} {pair!r} names no file", "write NAME=FILE")
        if name in files:
            raise PolyplinkError(f"{option} names {name!r} twice", "give each another name")
        files[name] = Path(path)
    return files
