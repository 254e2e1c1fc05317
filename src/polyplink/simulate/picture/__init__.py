"""What a frame looks like: the colon as distances, ray marching, light, lens."""
