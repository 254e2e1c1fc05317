"""Archives beyond one run: shards, work by Ray, the index of vectors."""
