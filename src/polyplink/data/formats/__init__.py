"""Box formats that many tools write: one reader and one writer each."""
