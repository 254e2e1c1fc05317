"""Box formats of common tools: one reader and one writer each."""
