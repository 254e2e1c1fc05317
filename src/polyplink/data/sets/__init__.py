"""Public data sets in the layouts of their releases: a file for each set, reader and writer."""
