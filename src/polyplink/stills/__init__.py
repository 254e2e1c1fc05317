"""Stills in motion: procedures with known identities, made from annotated still images."""
