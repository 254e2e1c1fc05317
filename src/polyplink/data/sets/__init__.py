"""Public data sets as they are released: one reader and one writer each."""
