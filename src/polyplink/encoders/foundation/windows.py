"""Clips of a fixed number of frames out of a tracklet of any number."""


def clip_starts(frames: int, clip: int) -> list[int]:
    """First frames of the clips that cover a tracklet.

    As few clips as cover every frame, spread evenly; neighbours overlap where `clip` does not
    divide `frames`. Every clip has exactly min(clip, frames) frames.

    Args:
        frames: Frames of the tracklet, at least 1.
        clip: Frames of a clip; 0 for the whole tracklet.
    """
    if clip == 0 or frames <= clip:
        return [0]
    count = -(-frames // clip)
    return [round(i * (frames - clip) / (count - 1)) for i in range(count)]
