"""Shared by all rooms: errors, artefacts, worker processes, compiled functions."""
