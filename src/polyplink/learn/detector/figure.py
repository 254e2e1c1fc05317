"""The figure of a training: the loss of each epoch, and detections in held-out frames."""

from collections.abc import Sequence
from pathlib import Path

from polyplink.core.arrays import Floats
from polyplink.learn.detector.augmented_frames import TrainingFrames
from polyplink.learn.detector.frames import true_boxes, unstretch

COLUMNS, MOST_FRAMES = 6, 24
ANNOTATED, DETECTED = "#ffffff", "#ff9d00"


def training_figure(
    path: Path,
    losses: Sequence[float],
    frames: TrainingFrames | None,
    predicted: Sequence[Floats],
    *,
    score: float,
) -> None:
    """Plot the losses, and below them `MOST_FRAMES` frames with annotated and detected boxes.

    Args:
        path: PNG file to write.
        losses: Mean loss of each epoch.
        frames: The held-out frames; None if there are none.
        predicted: The detected boxes (k, 5) of each frame, see `detect_in_frames`.
        score: Lowest score of the boxes that are drawn.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  takes half a second
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    total = 0 if frames is None else len(frames.pixels)
    chosen = sorted({k * total // MOST_FRAMES for k in range(MOST_FRAMES)}) if total else []
    rows = -(-len(chosen) // COLUMNS)
    figure = Figure(figsize=(12, 3 + 2 * rows), layout="constrained")
    grid = figure.add_gridspec(1 + rows, COLUMNS, height_ratios=[1.5, *[1.0] * rows])
    axes = figure.add_subplot(grid[0, :])
    axes.plot(range(1, len(losses) + 1), losses, marker=".")
    axes.set(xlabel="epoch", ylabel="mean loss", title="Training")
    if frames is None:
        figure.savefig(path, dpi=100)
        return
    truth = true_boxes(frames)
    for place, row in enumerate(chosen):
        axes = figure.add_subplot(grid[1 + place // COLUMNS, place % COLUMNS])
        axes.imshow(unstretch(frames, row))
        axes.axis("off")
        detected = predicted[row][predicted[row][:, 4] >= score]
        for boxes, colour in ((truth[row], ANNOTATED), (detected, DETECTED)):
            for x, y, w, h, *_ in boxes:
                axes.add_patch(Rectangle((x, y), w, h, fill=False, color=colour, linewidth=1.2))
    figure.text(0.01, 0.005, f"white: annotated; orange: detected, score {score:.2f} and above")
    figure.savefig(path, dpi=100)
