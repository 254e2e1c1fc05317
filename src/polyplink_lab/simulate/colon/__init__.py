"""The colon as geometry: its surface, its polyps, and where they are in a picture."""
