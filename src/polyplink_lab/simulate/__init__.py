"""Simulated colonoscopy procedures with known identities, written as any data set is."""
