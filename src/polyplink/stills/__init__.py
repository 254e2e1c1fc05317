"""Stills in motion: procedures with known identities, made from annotated still images."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.stills.annotated_stills import Still as Still, read_stills as read_stills
    from polyplink.stills.moving_camera import CameraPath as CameraPath, draw_path as draw_path
    from polyplink.stills.procedures import (
        StillsConfig as StillsConfig,
        write_procedures as write_procedures,
    )
    from polyplink.stills.still_views import draw_views as draw_views

hand_on(__name__)
