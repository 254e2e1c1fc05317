"""Models that ship with the package: a detector and an encoder, each with its model card."""
