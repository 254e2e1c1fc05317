"""Rendering of frames: distances to the colon, ray marching, light, lens."""
