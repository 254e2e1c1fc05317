"""The result of a count: what was counted, how certain that is, and what makes it doubtful."""
