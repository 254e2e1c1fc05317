"""The geometry of the colon: its surface, its polyps, and their boxes in a picture."""
