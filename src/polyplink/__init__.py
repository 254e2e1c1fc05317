"""polyplink gives every polyp of a colonoscopy one identity.

The package is a row of rooms, each reading the tables the one before it wrote:
``data``, ``simulate``, ``tracklets``, ``encoders``, ``learn``, ``associate``, ``evaluate``,
``recipes``, ``report``, ``jobs``. Import the room you need; importing ``polyplink`` alone is
instant and imports neither torch nor numpy.
"""

from polyplink.core.errors import PolyplinkError

__all__ = ["PolyplinkError", "__version__"]

__version__ = "0.1.0"
