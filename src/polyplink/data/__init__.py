"""The three tables, the data sets that are read into them, their splits and their doctor."""
