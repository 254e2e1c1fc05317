"""Tracklets: detections -> tracklets -> fragments; boxes -> crops, stored once."""
