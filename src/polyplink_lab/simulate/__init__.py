"""Simulate colonoscopy procedures with known identities, and write them as data sets."""
