"""Override settings of tracks and tracklets by a user's options."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from polyplink.tracklets.settings import PrepareSettings, TrackSettings
from polyplink.tracklets.tracks import find_tracker

if TYPE_CHECKING:
    from polyplink.data.origin import BoxesOrigin


def with_options(
    settings: PrepareSettings, options: Mapping[str, Any], origin: "BoxesOrigin | None" = None
) -> PrepareSettings:
    """Settings overridden by a user's options and by the record of a detector.

    Args:
        settings: The settings of the weights or the recipe.
        options: Fields of `PrepareSettings` and `TrackSettings` by name; None values are ignored.
        origin: The detector of the boxes; thresholds of tracks in its record override those of the
            settings, but not the options.

    Raises:
        PolyplinkError: If the tracker is unknown.

    Example:
        >>> with_options(PrepareSettings(), {"stride": 2, "high": 0.5, "low": None}).tracks.high
        0.5
    """
    if options.get("tracker") is not None:  # checked even if no box needs it
        find_tracker(options["tracker"])
    stated = {name: getattr(origin, name, None) for name in ("high", "low", "min_seconds")}
    merged = stated | {name: value for name, value in options.items() if value is not None}
    changes = {name: value for name, value in merged.items() if value is not None}
    of_tracks = {setting.name for setting in fields(TrackSettings)} & set(changes)
    tracks = {name: changes.pop(name) for name in of_tracks}
    return replace(settings, **changes, tracks=replace(settings.tracks, **tracks))
