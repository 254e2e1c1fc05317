"""What may be wrong with a data set, one check a file."""
