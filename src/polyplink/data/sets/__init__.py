"""Public data sets as they are released: one file a set, reader and writer."""
