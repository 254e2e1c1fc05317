"""Settings of tracks and tracklets with what a user asked for in place of their own."""

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
    """The settings with what a user asked for in place of their own.

    Args:
        settings: Of the weights or the recipe.
        options: Fields of `PrepareSettings` and `TrackSettings` by name; None for those to leave.
        origin: The detector of the boxes; the thresholds of tracks that its record states go before
            those of the settings.

    Raises:
        PolyplinkError: If there is no such tracker.

    Example:
        >>> with_options(PrepareSettings(), {"stride": 2, "high": 0.5, "low": None}).tracks.high
        0.5
    """
    if options.get("tracker") is not None:  # even if no box needs it
        find_tracker(options["tracker"])
    stated = {name: getattr(origin, name, None) for name in ("high", "low", "min_seconds")}
    merged = stated | {name: value for name, value in options.items() if value is not None}
    changes = {name: value for name, value in merged.items() if value is not None}
    of_tracks = {setting.name for setting in fields(TrackSettings)} & set(changes)
    tracks = {name: changes.pop(name) for name in of_tracks}
    return replace(settings, **changes, tracks=replace(settings.tracks, **tracks))
