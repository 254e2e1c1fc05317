"""From a data folder to a written count: its files, its report, its tracks and its video."""
