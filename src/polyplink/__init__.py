"""polyplink gives every polyp of a colonoscopy one identity.

Its rooms read the tables of the rooms before them: ``data``, ``simulate``, ``tracklets``,
``encoders``, ``learn``, ``associate``, ``evaluate``, ``recipes``, ``report``, ``bench``, ``app``.
Import the room you need; importing ``polyplink`` alone is instant and imports neither torch nor
numpy.
"""

from polyplink.core.errors import PolyplinkError

__all__ = ["PolyplinkError", "__version__"]

__version__ = "0.1.0"
