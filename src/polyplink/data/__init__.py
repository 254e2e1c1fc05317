"""Data sets as three tables: importers, splits, conversion and the doctor."""
